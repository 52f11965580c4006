import pytest
from fakes.catalogs import a_profile
from fakes.fleets import AT, a_fleet
from fakes.machines import a_fabric
from fakes.nodes import a_shard, an_introduction
from msgspec.structs import replace

from llmgw.core.fleet.hardware import EngineInstall, Fabric, Machine, Memory
from llmgw.core.fleet.shards import Phase
from llmgw.core.fleet.snapshot import Fleet, Introduction, NodeState, register
from llmgw.core.placement import filters
from llmgw.core.placement.demand import Demand, demand_of
from llmgw.core.placement.room import Room, room_of
from llmgw.core.placement.rooms import rooms_of
from llmgw.core.units import GIB


def _room(said: Introduction | None = None) -> Room:
    return rooms_of(a_fleet(said or an_introduction()))["n1"]


def _ask(one: filters.Filter, demand: Demand, room: Room) -> filters.Verdict | None:
    return one.verdict(demand, room) if one.refuses(demand, room) else None


def test_a_profile_without_requirements_fits_anywhere() -> None:
    silent = Introduction(node="n1", address="127.0.0.1")

    for one in filters.FILTERS:
        assert _ask(one, demand_of(a_profile()), _room(silent)) is None


@pytest.mark.parametrize(
    ("state", "remedy"),
    [
        (NodeState.CORDONED, "it were uncordoned with 'llmgw ctl nodes uncordon n1'"),
        (NodeState.DRAINING, "its drain were ended with 'llmgw ctl nodes uncordon n1'"),
        (NodeState.UNREACHABLE, "its agent came back"),
        (NodeState.LOST, "its agent came back"),
    ],
)
def test_a_node_that_is_not_ready_is_refused_with_its_state_and_since_when(
    state: NodeState, remedy: str
) -> None:
    room = _room()
    room = replace(room, node=replace(room.node, state=state))

    verdict = _ask(filters.STATE, demand_of(a_profile()), room)

    assert verdict is not None
    assert str(verdict) == (
        f"n1: state: needs a ready node, has {state} since {AT:%Y-%m-%d %H:%M:%S} UTC; would fit if {remedy}"
    )


def test_a_node_without_a_label_is_refused_with_the_labels_it_lacks_and_no_others() -> None:
    demand = demand_of(a_profile(node_selector={"rack": "b2", "floor": "1", "site": "north"}))

    verdict = _ask(filters.SELECTOR, demand, _room(an_introduction(labels={"rack": "b3", "floor": "1"})))

    assert verdict is not None
    assert verdict.needed == "labels rack=b2, site=north"
    assert verdict.had == "rack=b3, site=(none)"
    assert verdict.would_fit_if == "its agent.yaml set labels rack=b2, site=north"


def test_a_node_with_every_label_passes() -> None:
    demand = demand_of(a_profile(node_selector={"rack": "b2"}))

    assert _ask(filters.SELECTOR, demand, _room(an_introduction(labels={"rack": "b2", "more": "x"}))) is None


def test_a_node_without_the_engine_is_refused_with_what_it_has() -> None:
    demand = demand_of(a_profile(engine="vllm"))

    some, none = (
        _ask(filters.ENGINE, demand, _room(an_introduction(engines=engines)))
        for engines in (an_introduction().engines, ())
    )

    assert some is not None
    assert none is not None
    assert (some.had, none.had) == ("engines: llama.cpp", "no engine")
    assert "vllm were installed there or named under engines" in some.would_fit_if


def test_a_broken_engine_is_refused_in_the_nodes_own_words_and_a_second_that_runs_passes() -> None:
    broken = EngineInstall(engine="llama.cpp", form="llama-server", path="/a", problem="libgomp is missing")
    working = EngineInstall(engine="llama.cpp", form="xllamacpp", path="/b")

    verdict = _ask(filters.ENGINE, demand_of(a_profile()), _room(an_introduction(engines=(broken,))))

    assert verdict is not None
    assert verdict.had == "llama.cpp at /a: libgomp is missing"
    assert (
        _ask(filters.ENGINE, demand_of(a_profile()), _room(an_introduction(engines=(broken, working))))
        is None
    )


def test_a_node_too_old_to_say_its_engines_is_not_refused_for_it() -> None:
    assert _ask(filters.ENGINE, demand_of(a_profile()), _room(an_introduction(engines=None))) is None


def test_too_little_memory_is_refused_with_numbers() -> None:
    machine = Machine(memory=Memory(total_bytes=32 * GIB, available_bytes=10 * GIB))
    starting = a_shard("other", phase=Phase.STARTING, min_memory_gb=4)

    verdict = _ask(
        filters.MEMORY,
        demand_of(a_profile(min_memory_gb=8)),
        _room(an_introduction(machine=machine, shards=(starting,))),
    )

    assert verdict is not None
    assert verdict.rule == "memory"
    assert verdict.needed == "8.0 GiB of memory (given)"
    assert verdict.had == "6.0 GiB free of 32.0 GiB (4.0 GiB promised to the replicas there)"
    assert verdict.would_fit_if == "2.0 GiB more were free"


def test_a_node_that_is_too_small_in_all_is_told_so() -> None:
    verdict = _ask(
        filters.MEMORY, demand_of(a_profile(min_memory_gb=100)), _room(an_introduction(free_gb=64))
    )

    assert verdict is not None
    assert verdict.had == "64.0 GiB free of 64.0 GiB"
    assert "36.0 GiB more memory" in verdict.would_fit_if


def test_a_node_that_does_not_say_its_total_is_refused_by_what_is_free() -> None:
    machine = Machine(memory=Memory(available_bytes=1 * GIB))

    verdict = _ask(
        filters.MEMORY, demand_of(a_profile(min_memory_gb=2)), _room(an_introduction(machine=machine))
    )

    assert verdict is not None
    assert verdict.had == "1.0 GiB free"


def test_exactly_enough_memory_is_enough_and_an_unknown_amount_refuses_nobody() -> None:
    demand = demand_of(a_profile(min_memory_gb=64))

    assert _ask(filters.MEMORY, demand, _room(an_introduction(free_gb=64))) is None
    assert _ask(filters.MEMORY, demand, _room(an_introduction(free_gb=None))) is None


def test_a_node_of_another_pool_is_refused_with_its_pool() -> None:
    verdict = _ask(filters.POOL, demand_of(a_profile(pool="batch")), _room())

    assert verdict is not None
    assert str(verdict) == (
        "n1: pool: needs pool batch, has pool default; would fit if its agent.yaml set pool: batch"
    )
    assert _ask(filters.POOL, demand_of(a_profile(pool="default")), _room()) is None


def _on(*fabrics: Fabric) -> Room:
    return _room(an_introduction(machine=Machine(fabrics=fabrics)))


def test_a_node_off_the_fabric_is_refused_with_the_fabrics_it_is_on() -> None:
    demand = demand_of(a_profile(fabric="ib-a"))

    other, none = (_ask(filters.FABRIC, demand, _on(*said)) for said in ((a_fabric("ib-b"),), ()))

    assert other is not None
    assert none is not None
    assert (other.needed, other.had, none.had) == ("fabric ib-a", "fabrics: ib-b", "no fabric")
    assert other.would_fit_if == "its agent.yaml named ib-a under fabrics, with the adapter that is on it"
    assert _ask(filters.FABRIC, demand, _on(a_fabric("ib-a"))) is None


def test_an_adapter_that_is_not_attached_is_refused_in_the_kernels_words() -> None:
    loose = a_fabric("ib-a", attached=False, problem="port 1 is DOWN")

    named = _ask(filters.FABRIC, demand_of(a_profile(fabric="ib-a")), _on(loose))
    any_one = _ask(filters.FABRIC, demand_of(a_profile(fabric="any")), _on(loose))

    assert named is not None
    assert any_one is not None
    assert named.had == "ib-a through mlx5_0, not attached: port 1 is DOWN"
    assert named.would_fit_if == "mlx5_0 were attached"
    assert (any_one.needed, any_one.had) == ("a fabric", named.had)


def test_any_fabric_will_do_where_any_is_asked_for() -> None:
    demand = demand_of(a_profile(fabric="any"))

    verdict = _ask(filters.FABRIC, demand, _on())

    assert _ask(filters.FABRIC, demand, _on(a_fabric("ib-z"))) is None
    assert verdict is not None
    assert "named one under fabrics" in verdict.would_fit_if


def test_a_node_that_does_not_say_its_fabrics_is_refused_only_where_several_must_share_one() -> None:
    alone, together = demand_of(a_profile(fabric="ib-a")), demand_of(a_profile(fabric="ib-a", nodes=2))

    verdict = _ask(filters.FABRIC, together, _room())

    assert _ask(filters.FABRIC, alone, _room()) is None
    assert verdict is not None
    assert verdict.had == "nothing said of its fabrics"
    assert verdict.would_fit_if == "its agent were new enough to say its fabrics"


@pytest.mark.parametrize(
    ("protocol", "nodes", "fits"),
    [(0, 1, True), (0, 2, False), (1, 2, False), (2, 2, True), (99, 2, True), (None, 2, True)],
)
def test_an_agent_that_does_not_know_of_ranks_is_given_none(
    protocol: int | None, nodes: int, fits: bool
) -> None:
    fleet = register(
        Fleet(), an_introduction(version="0.1.0"), connection=1, now=0.0, at=AT, protocol=protocol
    )
    demand = demand_of(a_profile(nodes=nodes))

    verdict = _ask(filters.AGENT, demand, room_of(fleet.nodes["n1"]))
    passing = filters.AGENT.those_passing(demand, rooms_of(fleet), 0b1)

    assert (verdict is None, passing) == (fits, int(fits))
    if verdict is not None:
        assert verdict.had == f"version 0.1.0, protocol {protocol or 'unknown'}"
        assert verdict.would_fit_if == "its llmgw were updated to the server's version"


def test_a_filter_that_asks_one_room_after_the_other_finds_the_same_as_one_that_asks_all_at_once() -> None:
    rooms = rooms_of(
        a_fleet(an_introduction("n1"), an_introduction("n2", pool="batch"), an_introduction("n3"))
    )
    slow = replace(filters.POOL, passing=None)

    demand = demand_of(a_profile(pool="default"))

    assert slow.those_passing(demand, rooms, 0b111) == 0b101
    assert slow.those_passing(demand, rooms, 0b110) == 0b100
    assert filters.POOL.those_passing(demand, rooms, 0b110) == 0b100


def test_the_filters_are_asked_in_their_order() -> None:
    assert [one.rule for one in filters.FILTERS] == [
        "state",
        "pool",
        "selector",
        "engine",
        "agent",
        "gpus",
        "gpu-class",
        "gpu-memory",
        "memory",
        "disk",
        "fabric",
    ]
