from math import inf

from fakes.catalogs import a_profile
from fakes.fleets import a_fleet
from fakes.machines import HUB, a_gpu, a_holding
from fakes.nodes import a_shard, an_introduction
from msgspec.structs import replace

from llmgw.core.fleet.hardware import Gpu, Machine
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


def test_a_node_that_holds_the_weights_scores_better_and_one_never_asked_as_one_that_holds_nothing() -> None:
    demand = demand_of(a_profile(weights=HUB))
    said = [(a_holding(),), (a_holding(complete=False),), (), None]

    numbers = [scores.WEIGHTS.of("gemma", demand, _room(an_introduction(weights=one))) for one in said]

    assert numbers == [0, 1, 1, 1]


def test_weights_are_known_by_their_name_in_the_cache_too() -> None:
    named = replace(a_holding(), source=None)

    room = _room(an_introduction(weights=(named,)))

    assert scores.WEIGHTS.of("gemma", demand_of(a_profile(weights=HUB)), room) == 0


def _with_gpus(*gpus: Gpu) -> Room:
    return _room(an_introduction(machine=Machine(gpus=gpus)))


def test_the_tightest_gpus_that_are_enough_score_best_and_unknown_ones_worst() -> None:
    demand = demand_of(a_profile(gpus=1, min_gpu_memory_gb=20))
    unknown = _room(an_introduction())

    tight, wide, none = (
        scores.GPU_TIGHTNESS.of("gemma", demand, room)
        for room in (_with_gpus(a_gpu(0), a_gpu(1, free_gb=24)), _with_gpus(a_gpu(0)), unknown)
    )

    assert (tight, wide) == (24 * GIB, 80 * GIB)
    assert wide < none
    assert scores.GPU_TIGHTNESS.of("gemma", DEMAND, unknown) == 0


def test_a_node_with_less_gpu_memory_beside_scores_better_so_that_whole_nodes_stay_for_who_needs_them() -> (
    None
):
    demand = demand_of(a_profile(gpus=1))

    one, two, lost = (
        scores.GPUS_BESIDE.of("gemma", demand, room)
        for room in (
            _with_gpus(a_gpu(0)),
            _with_gpus(a_gpu(0), a_gpu(1)),
            _with_gpus(a_gpu(0), a_gpu(1, problem="lost")),
        )
    )

    assert one == lost == 80 * GIB
    assert two == 160 * GIB
    assert scores.GPUS_BESIDE.of("gemma", DEMAND, _with_gpus(a_gpu())) == 0
    assert scores.GPUS_BESIDE.of("gemma", demand, _room(an_introduction())) == inf


def test_a_score_that_looks_at_one_room_after_the_other_prefers_the_same_as_one_that_looks_at_all_at_once() -> (
    None
):
    crowded = an_introduction("n1", shards=(a_shard(),))
    rooms = rooms_of(a_fleet(crowded, an_introduction("n2"), an_introduction("n3")))
    slow = replace(scores.COPIES, best=None)

    assert slow.best_of("gemma", DEMAND, rooms, 0b111) == 0b110
    assert scores.COPIES.best_of("gemma", DEMAND, rooms, 0b111) == 0b110
    assert scores.COPIES.best_of("gemma", DEMAND, rooms, 0b001) == 0b001
