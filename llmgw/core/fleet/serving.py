"""Which engine processes may answer requests: rank 0 of each replica all of whose ranks are ready.

Of several generations of one shard the latest that is ready answers: a replacement that is still loading does not
silence the copy that it replaces, nor does one on a node out of reach silence a copy within reach, which is kept for
just this. What a silent or lost node said last still holds where there is nothing else, for its engines may well go on
serving; the router leaves out what does not answer.
"""

import msgspec

from llmgw.core.fleet.copies import Member, truer
from llmgw.core.fleet.shards import Phase, ShardState
from llmgw.core.fleet.snapshot import Fleet, Node, is_leaving
from llmgw.core.ids import Generation


class Serving(msgspec.Struct, frozen=True):
    """One engine process that may answer, and its node."""

    node: Node
    shard: ShardState


def serving_shards(fleet: Fleet) -> dict[str, tuple[Serving, ...]]:
    """List what may answer, by model, in the order of replicas."""
    ready = [
        Member(node, shard)
        for node in fleet.nodes.values()
        for shard in node.shards.values()
        if shard.phase == Phase.READY and not is_leaving(node, shard)
    ]
    others = {_rank(member.state): member for member in ready if member.state.rank}
    latest: dict[str, Member] = {}
    for member in ready:
        if member.state.rank == 0 and _is_whole(member.state, others):
            known = latest.get(member.state.shard)
            latest[member.state.shard] = member if known is None else _better(known, member, others)
    by_model: dict[str, list[Serving]] = {}
    for one in sorted(latest.values(), key=lambda one: (one.state.model, one.state.ordinal)):
        by_model.setdefault(one.state.model, []).append(Serving(one.node, one.state))
    return {model: tuple(all_of_it) for model, all_of_it in by_model.items()}


def _rank(shard: ShardState, rank: int | None = None) -> tuple[str, Generation, int]:
    return shard.replica, shard.generation, shard.rank if rank is None else rank


def _is_whole(head: ShardState, others: dict[tuple[str, Generation, int], Member]) -> bool:
    return all(_rank(head, rank) in others for rank in range(1, head.ranks))


def _better(one: Member, other: Member, others: dict[tuple[str, Generation, int], Member]) -> Member:
    if one.state.generation == other.state.generation:
        return truer(one, other)
    return max(one, other, key=lambda head: (_is_within_reach(head, others), head.state.generation))


def _is_within_reach(head: Member, others: dict[tuple[str, Generation, int], Member]) -> bool:
    ranks = (others[_rank(head.state, rank)] for rank in range(1, head.state.ranks))
    return head.is_reachable and all(member.is_reachable for member in ranks)
