from fakes.catalogs import a_profile

from llmgw.core.placement.demand import Demand, demand_of
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
