from fakes.fleets import a_fleet
from fakes.nodes import a_shard, an_introduction

from llmgw.core.fleet.hardware import Machine, Memory
from llmgw.core.fleet.shards import Claim, Phase, ShardState
from llmgw.core.placement.room import Room, claim
from llmgw.core.placement.rooms import rooms_of
from llmgw.core.units import GIB


def _room(*shards: ShardState, total_gb: int | None = None, free_gb: int | None = None) -> Room:
    memory = Memory(
        total_bytes=None if total_gb is None else total_gb * GIB,
        available_bytes=None if free_gb is None else free_gb * GIB,
    )
    said = an_introduction(machine=Machine(memory=memory), shards=shards)
    return rooms_of(a_fleet(said))["n1"]


def test_what_is_promised_to_starting_shards_is_taken_off_live_free_memory() -> None:
    starting = [
        a_shard(ordinal=i, phase=phase, min_memory_gb=2)
        for i, phase in enumerate((Phase.PENDING, Phase.FETCHING, Phase.STARTING))
    ]

    room = _room(*starting, free_gb=10)

    assert (room.free_bytes, room.claimed_bytes) == (4 * GIB, 6 * GIB)


def test_what_a_ready_shard_took_shows_in_free_memory_and_is_not_taken_off_twice() -> None:
    assert _room(a_shard(min_memory_gb=4), total_gb=16, free_gb=10).free_bytes == 10 * GIB


def test_weights_that_the_kernel_calls_free_are_not_promised_twice() -> None:
    # An engine that maps its weights from a file leaves nearly everything "available".
    assert _room(a_shard(min_memory_gb=12), total_gb=16, free_gb=15).free_bytes == 4 * GIB


def test_a_node_that_says_only_one_of_total_and_available_is_bounded_by_that_one() -> None:
    assert _room(a_shard(min_memory_gb=4), total_gb=16).free_bytes == 12 * GIB
    assert _room(free_gb=3).free_bytes == 3 * GIB
    assert _room().free_bytes is None


def test_what_has_ended_or_says_no_need_claims_nothing() -> None:
    room = _room(
        a_shard(ordinal=0, phase=Phase.FAILED, min_memory_gb=4),
        a_shard(ordinal=1, phase=Phase.STOPPED, min_memory_gb=4),
        a_shard(ordinal=2),
        total_gb=16,
    )

    assert (room.claimed_bytes, room.free_bytes) == (0, 16 * GIB)


def test_copies_and_failures_are_counted_by_model() -> None:
    room = _room(a_shard(), a_shard(ordinal=1), a_shard("other", phase=Phase.FAILED))

    assert (room.copies, room.failures) == ({"gemma": 2}, {"other": 1})


def test_a_placement_takes_its_claim_off_the_room() -> None:
    room = claim(_room(a_shard(), free_gb=10), "gemma", Claim(memory_bytes=4 * GIB))
    unknown = claim(_room(), "gemma", Claim())

    assert (room.free_bytes, room.claimed_bytes, room.copies) == (6 * GIB, 4 * GIB, {"gemma": 2})
    assert (unknown.free_bytes, unknown.claimed_bytes, unknown.copies) == (None, 0, {"gemma": 1})
