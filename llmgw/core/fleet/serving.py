"""Which engine processes may answer requests.

Of several generations of one shard the latest that is ready answers: a replacement that is still loading does not
silence the copy that it replaces. What a silent or lost node said last still holds, for its engines may well go on
serving; the router leaves out what does not answer.
"""

import msgspec

from llmgw.core.fleet.shards import Phase, ShardState
from llmgw.core.fleet.snapshot import Fleet, Node, is_leaving


class Serving(msgspec.Struct, frozen=True):
    """One engine process that may answer, and its node."""

    node: Node
    shard: ShardState


def serving_shards(fleet: Fleet) -> dict[str, tuple[Serving, ...]]:
    """List what may answer, by model, in the order of replicas."""
    latest: dict[str, Serving] = {}
    for node in fleet.nodes.values():
        for shard in node.shards.values():
            if _answers(node, shard):
                other = latest.get(shard.shard)
                if other is None or other.shard.generation < shard.generation:
                    latest[shard.shard] = Serving(node, shard)
    by_model: dict[str, list[Serving]] = {}
    for one in sorted(latest.values(), key=lambda one: (one.shard.model, one.shard.ordinal)):
        by_model.setdefault(one.shard.model, []).append(one)
    return {model: tuple(all_of_it) for model, all_of_it in by_model.items()}


def _answers(node: Node, shard: ShardState) -> bool:
    return shard.phase == Phase.READY and shard.rank == 0 and not is_leaving(node, shard)
