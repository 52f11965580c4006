"""What is left of the filesystem that a node fetches weights to: its free bytes less the downloads promised on it.

Two directories on one filesystem are one pool of bytes, and so is a filesystem that several nodes share: what one of
them was promised counts for all. Who waits for the same weights waits for the same bytes, which count once.
"""

from collections.abc import Iterable, Mapping

import msgspec

from llmgw.core.fleet.hardware import Filesystem
from llmgw.core.fleet.shards import Phase, ShardState
from llmgw.core.fleet.weights import Holding

_FETCHING = frozenset({Phase.PENDING, Phase.FETCHING})
_DIRECTORIES = ("weights", "state")
"""What a filesystem holds that weights are fetched to, the first that is reported: the cache lies in the state
directory unless agent.yaml says otherwise."""


class DiskRoom(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A filesystem that weights are fetched to, and what was promised on it.

    Attributes:
        promised: bytes still to come of each download, by its name in the cache; on a shared one, those of all nodes.
        left_bytes: free after all of them; None when the node does not say.
    """

    filesystem: Filesystem
    promised: Mapping[str, int] = {}
    left_bytes: int | None = None


def disk_room(filesystems: Iterable[Filesystem] | None, promised: Mapping[str, int]) -> DiskRoom | None:
    """Find the filesystem that weights are fetched to; None when the node does not say."""
    for name in _DIRECTORIES:
        for filesystem in filesystems or ():
            if name in filesystem.holds:
                return _with_promises(filesystem, promised)
    return None


def with_promises(room: DiskRoom, promised: Mapping[str, int]) -> DiskRoom:
    """Make these the downloads that are promised on it."""
    return _with_promises(room.filesystem, promised)


def _with_promises(filesystem: Filesystem, promised: Mapping[str, int]) -> DiskRoom:
    free = filesystem.free_bytes
    if free is not None and promised:
        free -= sum(promised.values())
    return DiskRoom(filesystem=filesystem, promised=promised, left_bytes=free)


def promises(shards: Iterable[ShardState], partial: Mapping[str, int]) -> dict[str, int]:
    """Add up what is still to be fetched for shards, by its name in the cache.

    Args:
        partial: bytes of unfinished downloads that are on the disk already.
    """
    found: dict[str, int] = {}
    for shard in shards:
        claim = shard.claim
        if claim is None or claim.disk_bytes is None or shard.phase not in _FETCHING:
            continue
        name = claim.fetches or shard.shard
        done = shard.progress.done_bytes if shard.progress is not None else 0
        left = max(0, claim.disk_bytes - max(done, partial.get(name, 0)))
        found[name] = max(left, found.get(name, 0))
    return found


def partial_downloads(weights: Iterable[Holding] | None) -> dict[str, int]:
    """List what unfinished downloads hold, by their name in the cache."""
    return {
        held.cache_name: held.size_bytes or 0
        for held in weights or ()
        if not held.complete and held.cache_name is not None
    }


def promise(room: DiskRoom, name: str, left_bytes: int) -> DiskRoom:
    """Promise a download; of one that was promised already, only what it is larger now."""
    if room.promised.get(name, -1) >= left_bytes:
        return room
    return with_promises(room, {**room.promised, name: left_bytes})
