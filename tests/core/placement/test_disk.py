from fakes.machines import HUB, a_disk, a_filer, a_holding
from fakes.nodes import a_shard

from llmgw.core.fleet.shards import Claim, Phase, ShardState
from llmgw.core.fleet.weights import Progress, cache_name_of
from llmgw.core.placement.disk import disk_room, partial_downloads, promise, promises
from llmgw.core.units import GIB

NAME = cache_name_of(HUB)
assert NAME is not None


def _fetching(size_gb: int = 20, *, done_gb: int | None = None, phase: Phase = Phase.FETCHING) -> ShardState:
    progress = None if done_gb is None else Progress(cache_name=NAME, done_bytes=done_gb * GIB)
    return a_shard(phase=phase, claim=Claim(disk_bytes=size_gb * GIB, fetches=NAME), progress=progress)


def test_weights_are_fetched_to_the_filesystem_that_holds_them_and_else_to_that_of_the_state() -> None:
    state, weights = a_disk(1, mount="/", holds=("state",)), a_filer(7, holds=("weights",))

    both, one = disk_room((state, weights), {}), disk_room((state,), {})

    assert both is not None
    assert one is not None
    assert (both.filesystem.mount, both.left_bytes) == ("/srv", 7 * GIB)
    assert one.filesystem.mount == "/"
    assert disk_room(None, {}) is None
    assert disk_room((a_disk(holds=()),), {}) is None


def test_what_is_promised_is_taken_off_what_is_free_and_unknown_stays_unknown() -> None:
    known, unknown = disk_room((a_disk(100),), {"a": 30 * GIB}), disk_room((a_disk(None),), {"a": 1})

    assert known is not None
    assert unknown is not None
    assert (known.left_bytes, unknown.left_bytes) == (70 * GIB, None)


def test_what_a_download_has_written_is_not_promised_any_more() -> None:
    assert promises([_fetching()], {}) == {NAME: 20 * GIB}
    assert promises([_fetching(done_gb=15)], {}) == {NAME: 5 * GIB}
    assert promises([_fetching(phase=Phase.PENDING)], {NAME: 8 * GIB}) == {NAME: 12 * GIB}
    assert promises([_fetching(done_gb=30)], {}) == {NAME: 0}


def test_shards_that_wait_for_the_same_weights_wait_for_the_same_bytes() -> None:
    assert promises([_fetching(20), _fetching(20)], {}) == {NAME: 20 * GIB}


def test_a_shard_whose_weights_are_there_is_promised_nothing() -> None:
    assert promises([_fetching(phase=Phase.STARTING), _fetching(phase=Phase.FAILED), a_shard()], {}) == {}


def test_a_claim_that_does_not_say_what_it_fetches_counts_for_its_shard() -> None:
    one = a_shard(phase=Phase.PENDING, claim=Claim(disk_bytes=GIB))

    assert promises([one], {}) == {"gemma.0.0": GIB}


def test_unfinished_downloads_are_listed_by_their_name_in_the_cache() -> None:
    found = partial_downloads((a_holding(size_gb=3, complete=False), a_holding("hf://lab/other")))

    assert found == {NAME: 3 * GIB}
    assert partial_downloads(None) == {}


def test_a_second_promise_of_the_same_download_counts_only_what_it_is_larger() -> None:
    room = disk_room((a_disk(100),), {})
    assert room is not None

    once = promise(room, "a", 10 * GIB)
    same = promise(once, "a", 10 * GIB)
    more = promise(once, "a", 12 * GIB)

    assert (once.left_bytes, more.left_bytes) == (90 * GIB, 88 * GIB)
    assert same is once
