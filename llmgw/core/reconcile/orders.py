"""What an operator ordered: rolls and restarts, brought up to what is observed (rules 4 and 5)."""

from msgspec.structs import replace

from llmgw.core.fleet.catalog import Model
from llmgw.core.fleet.copies import Copy
from llmgw.core.fleet.orders import ROOM_WITHIN_S, Roll, RollState, stopped
from llmgw.core.fleet.shards import LIVE, Phase
from llmgw.core.ids import Generation
from llmgw.core.reconcile.draft import Draft

_NEVER = Generation(-1, 0)


def is_rolled(roll: Roll | None, copy: Copy) -> bool:
    """Tell whether a copy is still to be replaced by a roll."""
    return roll is not None and copy.phase in LIVE and roll.is_target(copy.lead)


def judged_roll(draft: Draft, model: Model, copies: list[Copy]) -> Roll | None:
    """Bring a roll up to what is observed; gives it back while there is something to do."""
    roll = draft.orders.rolls.get(model.name)
    if roll is None:
        return None
    if roll.is_rolling():
        left = sum(is_rolled(roll, copy) for copy in copies)
        roll = replace(roll, left=left, state=RollState.ROLLING if left else RollState.DONE)
        failed = next((c for c in copies if c.phase == Phase.FAILED and c.generation > roll.began), None)
        if failed is not None and left:
            roll = stopped(roll, _why_stopped(failed))
        elif not left:
            roll = replace(roll, why=None, refused_now=None)
    draft.rolls[model.name] = roll
    return roll if roll.is_rolling() else None


def _why_stopped(copy: Copy) -> str:
    failed = next(member for member in copy.members if member.state.phase == Phase.FAILED)
    said = failed.state.reason or "no reason given"
    return f"the new {copy.replica} ({copy.generation}) failed on {failed.node.id}: {said}"


def note_room(draft: Draft, model: Model, roll: Roll, *, is_refused: bool) -> None:
    """Let a roll wait for room, and stop it when there is none for long."""
    if not is_refused:
        draft.rolls[model.name] = replace(roll, why=None, refused_now=None)
        return
    since_now = draft.now if roll.refused_now is None else roll.refused_now
    why = f"there is no room beside what runs: {draft.refused[model.name].summary()}"
    if draft.now - since_now >= ROOM_WITHIN_S and not draft.is_unsettled:
        remedy = (
            f"'llmgw ctl replicas restart ID' ends one first; make room and roll {model.name} again otherwise"
        )
        draft.rolls[model.name] = stopped(roll, f"{why}; {remedy}")
    else:
        draft.rolls[model.name] = replace(roll, why=f"waits: {why}", refused_now=since_now)


def returning(draft: Draft, model: Model, copies: list[Copy]) -> list[int]:
    """List the ordinals of what was restarted, has ended, and is to come back under its own name."""
    there = {copy.ordinal for copy in (*copies, *draft.leaving.get(model.name, ()))}
    ordinals = []
    for replica, ordered in draft.orders.restarts.items():
        name, _, ordinal = replica.rpartition(".")
        if name == model.name and ordinal.isdecimal() and int(ordinal) not in there:
            draft.restarts[replica] = ordered
            ordinals.append(int(ordinal))
    return sorted(ordinals)


def restarted(draft: Draft, model: Model, copies: list[Copy]) -> tuple[list[Copy], int]:
    """Apply rule 4: the other copies, and how many places are kept for what is ending."""
    orders = draft.orders.restarts
    if not orders:
        return copies, 0
    others, places = [], 0
    for copy in draft.leaving.get(model.name, ()):
        if copy.generation <= orders.get(copy.replica, _NEVER):
            draft.restarts[copy.replica] = orders[copy.replica]
            places += 1
    for copy in copies:
        if copy.generation > orders.get(copy.replica, _NEVER) or copy.phase not in LIVE:
            others.append(copy)
        elif not copy.is_reachable:
            draft.restarts[copy.replica] = orders[copy.replica]
            others.append(copy)
        else:
            draft.restarts[copy.replica] = orders[copy.replica]
            places += draft.stop(copy, "an operator asked to restart it")
    return others, places
