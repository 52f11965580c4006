from fakes.catalogs import a_profile
from fakes.fleets import a_fleet
from fakes.nodes import a_shard, an_introduction

from llmgw.core.fleet.shards import Phase
from llmgw.core.fleet.snapshot import Introduction
from llmgw.core.placement import scores
from llmgw.core.placement.demand import demand_of
from llmgw.core.placement.room import Room
from llmgw.core.placement.rooms import rooms_of
from llmgw.core.units import GIB

DEMAND = demand_of(a_profile(min_memory_gb=4))


def _room(said: Introduction) -> Room:
    return rooms_of(a_fleet(said))["n1"]


def test_a_node_where_a_copy_lies_failed_scores_worse() -> None:
    failed = _room(an_introduction(shards=(a_shard(phase=Phase.FAILED),)))

    assert scores.FAILURES.of("gemma", DEMAND, failed) == 1
    assert scores.FAILURES.of("other", DEMAND, failed) == 0


def test_a_node_with_copies_of_the_same_model_scores_worse() -> None:
    crowded = _room(an_introduction(shards=(a_shard(), a_shard(ordinal=1))))

    assert scores.COPIES.of("gemma", DEMAND, crowded) == 2
    assert scores.COPIES.of("other", DEMAND, crowded) == 0


def test_the_tightest_fit_scores_best_and_an_unknown_room_worst() -> None:
    tight, wide, unknown = (
        scores.TIGHTNESS.of("gemma", DEMAND, _room(an_introduction(free_gb=free))) for free in (5, 50, None)
    )

    assert tight == 5 * GIB
    assert tight < wide < unknown
