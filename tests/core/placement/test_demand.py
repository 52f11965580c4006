from fakes.catalogs import a_profile
from fakes.machines import HUB

from llmgw.core.fleet.weights import cache_name_of
from llmgw.core.placement.demand import Demand, demand_of
from llmgw.core.placement.need import Need, Said
from llmgw.core.units import GIB


def test_a_profile_asks_for_its_engine_memory_and_labels() -> None:
    profile = a_profile(min_memory_gb=1.5, node_selector={"rack": "b2"})

    assert demand_of(profile) == Demand(
        engine="llama.cpp",
        source="file:///srv/models/gemma.gguf",
        memory_bytes=int(1.5 * GIB),
        selector=(("rack", "b2"),),
    )


def test_a_profile_that_says_no_memory_asks_for_none() -> None:
    assert demand_of(a_profile()).memory_bytes is None


def test_what_is_given_wins_over_what_is_measured_or_estimated_and_all_stay_known() -> None:
    need = Need(memory_bytes=9 * GIB, said=Said.MEASURED, estimated_bytes=7 * GIB, measured_bytes=9 * GIB)

    given, known = demand_of(a_profile(min_memory_gb=4), need), demand_of(a_profile(), need)

    assert (given.memory_bytes, given.memory_said) == (4 * GIB, Said.GIVEN)
    assert (known.memory_bytes, known.memory_said) == (9 * GIB, Said.MEASURED)
    assert (given.estimated_bytes, given.measured_bytes) == (7 * GIB, 9 * GIB)


def test_gpus_are_taken_whole_only_when_nobody_knows_how_much_of_them_is_needed() -> None:
    whole = demand_of(a_profile(gpus=2))
    given = demand_of(a_profile(gpus=2, min_gpu_memory_gb=3), Need(gpu_bytes=GIB))
    shared = demand_of(a_profile(gpus=2), Need(gpu_share=0.9))
    none = demand_of(a_profile(), Need(gpu_bytes=GIB, gpu_share=0.9))

    assert [demand.takes_whole for demand in (whole, given, shared, none)] == [True, False, False, False]
    assert given.gpu_bytes == 3 * GIB
    assert (none.gpu_bytes, none.gpu_share) == (None, None)


def test_only_weights_that_are_fetched_ask_for_disk_and_have_a_name_in_a_cache() -> None:
    need = Need(disk_bytes=5 * GIB)

    fetched = demand_of(a_profile(weights=HUB), need)
    given = demand_of(a_profile(weights=HUB, min_disk_gb=7), need)
    path = demand_of(a_profile(min_disk_gb=7), need)

    assert (fetched.disk_bytes, given.disk_bytes, path.disk_bytes) == (5 * GIB, 7 * GIB, None)
    assert fetched.cache_name == cache_name_of(HUB)
    assert path.cache_name is None


def test_equal_demands_are_equal_and_can_be_looked_up() -> None:
    one, other = (demand_of(a_profile(name=name, node_selector={"b": "1", "a": "2"})) for name in ("x", "y"))

    assert {one: "found"}[other] == "found"
