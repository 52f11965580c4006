"""What becomes of the copies of one model: which are meant to stay, which serve until they are replaced, which go.

Rules 3, 5 and 6; the words are those of fleet/turnover.py.
"""

from llmgw.core.fleet.catalog import Model
from llmgw.core.fleet.copies import Copy
from llmgw.core.fleet.orders import Roll
from llmgw.core.fleet.shards import Phase
from llmgw.core.fleet.snapshot import NodeState
from llmgw.core.fleet.turnover import may_go
from llmgw.core.reconcile.draft import Draft
from llmgw.core.reconcile.orders import is_rolled
from llmgw.core.reconcile.survivors import ENDED


class Parts:
    """The copies of one model that stay for now."""

    def __init__(self) -> None:
        self.fresh: list[Copy] = []
        self.drained: list[Copy] = []
        self.rolled: list[Copy] = []

    def ordinals(self) -> set[int]:
        """List the ordinals that are taken by them."""
        return {copy.ordinal for copy in (*self.fresh, *self.drained, *self.rolled)}


def parted(draft: Draft, model: Model, copies: list[Copy], wanted: int, roll: Roll | None) -> Parts:
    """Apply rules 3, 5 and 6 to all that does not stay."""
    names = {profile.name for profile in model.profiles}
    parts = Parts()
    for copy in _by_worth(model, copies):
        profile = copy.lead.profile
        if copy.phase == Phase.STOPPED:
            draft.stop(copy, "it has ended")
        elif profile is not None and profile not in names:
            draft.stop(copy, f"profile {profile!r} left model {model.name!r}")
        elif drained := _drained_nodes(copy):
            _part_old(draft, copy, parts.drained, f"node {drained} is drained")
        elif is_rolled(roll, copy):
            _part_old(draft, copy, parts.rolled, f"model {model.name!r} is rolled")
        elif len(parts.fresh) >= wanted:
            draft.stop(copy, f"{len(copies)} replicas of {model.name!r} run, {model.replicas} are wanted")
        else:
            parts.fresh.append(copy)
    return parts


def let_go(draft: Draft, parts: Parts, wanted: int, homeless: int) -> None:
    """Apply rule 5: stop the old ones in whose place enough others are ready.

    Args:
        homeless: how many drained ones fit nowhere else and need not be waited for.
    """
    drained = [copy for copy in parts.drained if copy.is_reachable]
    rolled = [copy for copy in parts.rolled if copy.is_reachable]
    ready = sum(copy.is_ready and copy.is_reachable for copy in parts.fresh)
    count = may_go(wanted=wanted, fresh_ready=ready, old_ready=len(drained) + len(rolled))
    for copy in (*drained, *rolled)[:count]:
        why = f"node {_drained_nodes(copy)} is drained" if copy in parts.drained else "it is rolled"
        draft.stop(copy, f"{why}, and enough other replicas are ready")
    for copy in drained[count:][:homeless]:
        draft.stop(copy, f"node {_drained_nodes(copy)} is drained, and it fits on no other node")


def _drained_nodes(copy: Copy) -> str:
    nodes = (member.node for member in copy.members)
    return ", ".join(node.id for node in nodes if node.intent == NodeState.DRAINING)


def _part_old(draft: Draft, copy: Copy, old: list[Copy], because: str) -> None:
    if copy.is_ready:
        old.append(copy)
    else:
        draft.stop(copy, because)


def _by_worth(model: Model, copies: list[Copy]) -> list[Copy]:
    """Order copies by how much they are worth keeping, the most first."""
    # Fingerprints are hashes; they are asked for only where somebody has to go.
    prints = {p.fingerprint() for p in model.profiles} if len(copies) > model.replicas else None

    def key(copy: Copy) -> tuple[int, bool, bool, int]:
        worth = 0 if copy.is_ready else 2 if copy.phase in ENDED else 1
        said = copy.lead.fingerprint
        stale = prints is not None and said is not None and said not in prints
        return worth, not copy.is_reachable, stale, copy.ordinal

    return sorted(copies, key=key)
