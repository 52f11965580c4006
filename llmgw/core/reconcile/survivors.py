"""Which copies stay for now: whole ones, and one generation of each replica (rules 1 and 2)."""

from collections.abc import Collection

from msgspec.structs import replace

from llmgw.core.fleet.copies import Copy, Member, observed_copies
from llmgw.core.fleet.shards import Phase
from llmgw.core.reconcile.draft import Draft

ENDED = (Phase.FAILED, Phase.STOPPED)


def surviving_copies(draft: Draft, strange: Collection[tuple[str, str]]) -> dict[str, list[Copy]]:
    """Give one copy of every replica, by model; what cannot stay is stopped.

    Args:
        strange: node and shard of each engine that is left alone.
    """
    by_replica: dict[str, list[Copy]] = {}
    for copy in observed_copies(draft.fleet):
        if not copy.is_strange(strange) and _stays_whole(draft, copy):
            by_replica.setdefault(copy.replica, []).append(copy)
    by_model: dict[str, list[Copy]] = {}
    for copies in by_replica.values():
        stays = copies[0] if len(copies) == 1 else _latest_that_serves(draft, copies)
        by_model.setdefault(stays.model, []).append(stays)
    return by_model


def _stays_whole(draft: Draft, copy: Copy) -> bool:
    """Apply rule 1; False for a copy that is leaving."""
    if copy.phase == Phase.FAILED:
        draft.end(copy, _live(copy), _why_failed(copy))
        return True
    if copy.phase == Phase.DRAINING:
        draft.end(copy, copy.members, "another rank of its replica is ending")
        draft.note_leaving(copy)
        return False
    if copy.ranks > 1 and copy.missing:
        draft.stop(copy, _why_broken(copy))
        return False
    return True


def _live(copy: Copy) -> list[Member]:
    return [member for member in copy.members if member.is_live]


def _why_failed(copy: Copy) -> str:
    failed = next(member for member in copy.members if member.state.phase == Phase.FAILED)
    reason = failed.state.reason or "no reason given"
    return (
        f"rank {failed.state.rank} on {failed.node.id} failed ({reason}), and a replica lives and ends whole"
    )


def _why_broken(copy: Copy) -> str:
    rank = copy.missing[0]
    was = next((member.node.id for member in copy.lost if member.state.rank == rank), None)
    what = f"node {was}, where rank {rank} ran, is lost" if was else f"rank {rank} runs nowhere any more"
    return f"{what}, and a replica lives and ends whole"


def _latest_that_serves(draft: Draft, copies: list[Copy]) -> Copy:
    """Apply rule 2: choose what stays, and stop what need not wait for it."""
    copies = sorted(copies, key=lambda copy: copy.generation)
    latest = copies[-1]
    ready = [copy for copy in copies if copy.is_ready]
    stays = ready[-1] if ready and latest.phase in ENDED else latest
    # Until the later one is known to answer, the older one is all that clients have: what a node that is out of reach
    # said last proves nothing, nor does what one said before the older one was back, for the net that gave the one back
    # may have taken the other.
    answers = stays.is_ready and stays.is_reachable and _is_heard_after(stays, ready)
    older = () if answers else tuple(copy for copy in ready if copy is not stays)
    for copy in copies:
        if copy is not stays and copy not in older:
            draft.stop(copy, _why_second(copy, stays))
    return replace(stays, older=older) if older else stays


def _is_heard_after(copy: Copy, others: Collection[Copy]) -> bool:
    """Tell whether every node of a copy has spoken since the nodes of the others registered."""
    back_now = max(member.node.registered_now for other in others for member in other.members)
    return all(member.node.said_now >= back_now for member in copy.members)


def _why_second(copy: Copy, stays: Copy) -> str:
    if copy.generation == stays.generation:
        return f"a second {copy.replica} ({copy.generation}) stopped here, the same runs on {stays.where}"
    return (
        f"older generation {copy.generation} of {copy.replica} stopped here, "
        f"{stays.generation} runs on {stays.where}"
    )
