from math import inf

import pytest
from fakes.catalogs import a_profile
from fakes.machines import a_gpu
from fakes.nodes import a_shard

from llmgw.core.fleet.hardware import Gpu
from llmgw.core.fleet.shards import Claim, Phase, ShardState
from llmgw.core.placement.demand import Demand, demand_of
from llmgw.core.placement.gpus import (
    GpuAsk,
    GpuRoom,
    ask_of,
    choose_gpus,
    claim_gpus,
    claimed_gpu_bytes,
    gpu_rooms,
    kinds_of,
    most_each,
    tightest,
)
from llmgw.core.placement.need import Need
from llmgw.core.units import GIB


def _rooms(*gpus: Gpu, shards: tuple[ShardState, ...] = (), memory: int | None = None) -> tuple[GpuRoom, ...]:
    rooms = gpu_rooms(gpus, shards, memory)
    assert rooms is not None
    return rooms


def _holding(gpu_bytes: int | None, phase: Phase = Phase.READY, ordinal: int = 0) -> ShardState:
    return a_shard(ordinal=ordinal, phase=phase, claim=Claim(gpus=("GPU-0",), gpu_bytes=gpu_bytes))


def _demand(need: Need | None = None, **given: object) -> Demand:
    return demand_of(a_profile(**{"gpus": 1} | given), need)


def test_live_free_memory_counts_whoever_holds_the_rest() -> None:
    (room,) = _rooms(a_gpu(free_gb=10))

    assert (room.left_bytes, room.holders, room.is_taken) == (10 * GIB, (), False)


def test_a_gpu_that_does_not_say_what_is_free_has_no_more_than_its_memory_in_all() -> None:
    (alone,) = _rooms(a_gpu(free_gb=None))
    (shared,) = _rooms(a_gpu(free_gb=None), shards=(_holding(30 * GIB),))

    assert alone.left_bytes == alone.gpu.total_bytes == 80 * GIB
    assert shared.left_bytes == 50 * GIB


def test_what_is_promised_to_a_shard_that_does_not_show_there_yet_is_taken_off() -> None:
    (coming,) = _rooms(a_gpu(free_gb=70), shards=(_holding(20 * GIB, Phase.STARTING),))
    (there,) = _rooms(a_gpu(free_gb=40), shards=(_holding(30 * GIB),))

    assert coming.left_bytes == 50 * GIB
    assert there.left_bytes == 40 * GIB
    assert coming.holders == ("gemma.0.0",)


def test_claims_of_all_that_runs_bound_what_is_left_though_more_is_free_just_now() -> None:
    (room,) = _rooms(a_gpu(free_gb=75), shards=(_holding(30 * GIB), _holding(20 * GIB, ordinal=1)))

    assert room.left_bytes == 30 * GIB


def test_a_gpu_that_a_shard_takes_whole_is_taken_and_one_that_ended_holds_nothing() -> None:
    (taken,) = _rooms(a_gpu(), shards=(_holding(None),))
    (free,) = _rooms(a_gpu(), shards=(_holding(None, Phase.FAILED),))

    assert taken.is_taken
    assert (free.is_taken, free.holders) == (False, ())


def test_what_is_left_of_a_gpu_that_shares_main_memory_is_what_is_left_of_that() -> None:
    (room,) = _rooms(a_gpu(free_gb=None, unified=True), memory=12 * GIB)

    assert room.left_bytes == 12 * GIB


def test_nothing_said_is_nothing_known_and_none_is_none() -> None:
    assert gpu_rooms(None, (), None) is None
    assert gpu_rooms((), (), None) == ()
    assert kinds_of(None) is None
    assert kinds_of(()) == ()


def test_gpus_are_sorted_by_their_kind_and_those_with_a_problem_are_left_out() -> None:
    rooms = _rooms(
        a_gpu(0, free_gb=80),
        a_gpu(1, free_gb=30),
        a_gpu(2, problem="fell off the bus"),
        a_gpu(3, gpu_class="a100-40gb", total_gb=40, free_gb=40),
    )

    kinds = kinds_of(rooms)

    assert kinds is not None
    assert [(kind.gpu_class, kind.count, kind.shared, kind.whole) for kind in kinds] == [
        ("h100-80gb-hbm3", 2, (30 * GIB, 80 * GIB), (80 * GIB,)),
        ("a100-40gb", 1, (40 * GIB,), (40 * GIB,)),
    ]


@pytest.mark.parametrize(
    ("gpu", "is_whole"),
    [
        (a_gpu(free_gb=72), True),
        (a_gpu(free_gb=71), False),
        (a_gpu(free_gb=None), True),
        (a_gpu(free_gb=3, total_gb=None), True),
        (a_gpu(free_gb=3, unified=True), True),
    ],
)
def test_a_gpu_is_had_whole_while_nine_tenths_of_it_are_free_or_nobody_can_tell(
    gpu: Gpu, is_whole: bool
) -> None:
    free = GpuAsk(None, None, True).free(kinds_of(_rooms(gpu, memory=3 * GIB)) or ())

    assert (len(free) == 1) is is_whole


def test_an_ask_finds_its_class_by_its_beginning_and_those_that_do_not_say_theirs() -> None:
    rooms = _rooms(a_gpu(0), a_gpu(1, gpu_class="a100", free_gb=5), a_gpu(2, gpu_class=None, free_gb=2))
    kinds = kinds_of(rooms) or ()

    assert GpuAsk("h100", None, False).free(kinds) == (2 * GIB, 80 * GIB)
    assert GpuAsk("b200", None, False).free(kinds) == (2 * GIB,)
    assert GpuAsk(None, None, False).free(kinds) == (2 * GIB, 5 * GIB, 80 * GIB)


def test_a_share_is_of_each_gpus_own_memory() -> None:
    rooms = _rooms(a_gpu(0, free_gb=70), a_gpu(1, free_gb=22, total_gb=24), a_gpu(2, free_gb=20, total_gb=24))

    free = GpuAsk(None, 0.9, False).free(kinds_of(rooms) or ())

    assert free == (22 * GIB,)


def test_the_most_that_each_of_some_gpus_can_give_is_what_the_last_of_the_best_has() -> None:
    free = (1.0, 5.0, 8.0)

    assert [most_each(free, count) for count in (1, 2, 3, 4)] == [8.0, 5.0, 1.0, -inf]


def test_the_tightest_fit_is_measured_by_the_largest_gpu_that_it_takes() -> None:
    free = (1.0, 5.0, 8.0, 9.0)

    assert tightest(free, 1, 4) == 5.0
    assert tightest(free, 2, 4) == 8.0
    assert tightest(free, 2, 9) == inf


def test_the_tightest_gpus_that_are_enough_are_chosen_the_first_number_among_equals() -> None:
    rooms = _rooms(a_gpu(0), a_gpu(1, free_gb=30), a_gpu(2, free_gb=10), a_gpu(3, free_gb=30))

    chosen = choose_gpus(_demand(min_gpu_memory_gb=20), rooms)
    two = choose_gpus(_demand(gpus=2, min_gpu_memory_gb=20), rooms)

    assert [room.gpu.index for room in chosen] == [1]
    assert [room.gpu.index for room in two] == [1, 3]


def test_no_gpus_are_chosen_where_none_are_asked_for_or_known() -> None:
    assert choose_gpus(_demand(gpus=0), _rooms(a_gpu())) == ()
    assert choose_gpus(_demand(), None) == ()


def test_gpus_with_a_problem_or_taken_by_another_are_never_chosen() -> None:
    lost, taken = a_gpu(1, problem="lost"), a_gpu(0)

    assert choose_gpus(_demand(), _rooms(taken, lost, shards=(_holding(None),))) == ()
    assert choose_gpus(_demand(min_gpu_memory_gb=1), _rooms(taken, lost, shards=(_holding(None),))) == ()


def test_a_gpu_that_is_shared_already_is_not_had_whole() -> None:
    rooms = _rooms(a_gpu(free_gb=79), shards=(_holding(1 * GIB),))

    assert choose_gpus(_demand(), rooms) == ()
    assert len(choose_gpus(_demand(min_gpu_memory_gb=2), rooms)) == 1


def test_who_says_how_much_it_takes_shares_and_who_does_not_takes_it_whole() -> None:
    rooms = _rooms(a_gpu(0))

    assert claimed_gpu_bytes(_demand(), rooms) is None
    assert claimed_gpu_bytes(_demand(min_gpu_memory_gb=7), rooms) == 7 * GIB
    assert claimed_gpu_bytes(_demand(Need(gpu_share=0.5)), rooms) == 40 * GIB
    assert claimed_gpu_bytes(_demand(Need(gpu_share=0.1, gpu_bytes=9 * GIB)), rooms) == 9 * GIB
    assert claimed_gpu_bytes(_demand(Need(gpu_share=0.5)), ()) is None


def test_a_claim_is_taken_off_the_gpus_that_it_names() -> None:
    rooms = _rooms(a_gpu(0), a_gpu(1))

    after = claim_gpus(rooms, "gemma", Claim(gpus=("GPU-1",), gpu_bytes=30 * GIB), None)

    assert after is not None
    assert after[0] is rooms[0]
    assert (after[1].left_bytes, after[1].holders, after[1].is_taken) == (50 * GIB, ("gemma",), False)


def test_a_claim_without_bytes_takes_the_gpu_whole_and_one_without_gpus_changes_none() -> None:
    rooms = _rooms(a_gpu(0))

    taken = claim_gpus(rooms, "gemma", Claim(gpus=("GPU-0",)), None)
    same = claim_gpus(rooms, "gemma", Claim(memory_bytes=GIB), None)

    assert taken is not None
    assert taken[0].is_taken
    assert same is rooms


def test_a_claim_of_main_memory_is_taken_off_gpus_that_share_it() -> None:
    rooms = _rooms(a_gpu(0, unified=True), memory=30 * GIB)

    after = claim_gpus(rooms, "gemma", Claim(memory_bytes=10 * GIB), 20 * GIB)

    assert after is not None
    assert after[0].left_bytes == 20 * GIB


def test_equal_asks_are_equal_whatever_their_amounts() -> None:
    assert ask_of(_demand(min_gpu_memory_gb=2)) == ask_of(_demand(gpus=4, min_gpu_memory_gb=70))
    assert ask_of(_demand()) != ask_of(_demand(min_gpu_memory_gb=2))
