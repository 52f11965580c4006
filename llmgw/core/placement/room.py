"""What a node has left: its live free memory less what is promised to shards that do not show in it yet.

Free memory alone would promise too much: weights that an engine maps from a file count as free to the kernel for as
long as they could be read again. So what all shards on the node were promised may not exceed its memory in all either.
"""

import msgspec

from llmgw.core.fleet.shards import LIVE, Claim, Phase, ShardState
from llmgw.core.fleet.snapshot import Fleet, Node
from llmgw.core.units import GIB

_PROMISED = frozenset({Phase.PENDING, Phase.FETCHING, Phase.STARTING})


class Room(msgspec.Struct, frozen=True, kw_only=True):
    """One node and what may still be placed on it.

    Attributes:
        free_bytes: None when the node does not say.
        claimed_bytes: promised to the shards on it; already taken off free_bytes.
        copies: replicas of each model on it, by model name.
        failures: failed replicas of each model on it, by model name.
        engines: names of the engines that were seen to run; None when the node does not say.
    """

    node: Node
    free_bytes: int | None = None
    claimed_bytes: int = 0
    copies: dict[str, int] = {}
    failures: dict[str, int] = {}
    engines: frozenset[str] | None = None


def rooms_of(fleet: Fleet) -> dict[str, Room]:
    """Work out the room of every node."""
    return {node.id: _room(node) for node in fleet.nodes.values()}


def claim(room: Room, model: str, claim: Claim) -> Room:
    """Take a newly placed shard off the room."""
    taken = claim.memory_bytes or 0
    return msgspec.structs.replace(
        room,
        free_bytes=None if room.free_bytes is None else room.free_bytes - taken,
        claimed_bytes=room.claimed_bytes + taken,
        copies=room.copies | {model: room.copies.get(model, 0) + 1},
    )


def _room(node: Node) -> Room:
    promised = claimed = 0
    copies: dict[str, int] = {}
    failures: dict[str, int] = {}
    for shard in node.shards.values():
        if shard.phase in LIVE:
            claimed += _claim_of(shard)
        if shard.phase in _PROMISED:
            promised += _claim_of(shard)
        count = failures if shard.phase == Phase.FAILED else copies
        count[shard.model] = count.get(shard.model, 0) + 1
    free = _free(node, promised, claimed)
    running = None if node.engines is None else frozenset(e.engine for e in node.engines if not e.problem)
    return Room(
        node=node,
        free_bytes=free,
        claimed_bytes=claimed,
        copies=copies,
        failures=failures,
        engines=running,
    )


def _free(node: Node, promised: int, claimed: int) -> int | None:
    memory = node.machine.memory
    bounds = []
    if memory.available_bytes is not None:
        bounds.append(memory.available_bytes - promised)
    if memory.total_bytes is not None:
        bounds.append(memory.total_bytes - claimed)
    return min(bounds, default=None)


def _claim_of(shard: ShardState) -> int:
    return 0 if shard.min_memory_gb is None else int(shard.min_memory_gb * GIB)
