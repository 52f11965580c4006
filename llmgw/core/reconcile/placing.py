"""Starting replicas: those that are missing and those that failed (rules 7 and 8)."""

from collections.abc import Sequence

from llmgw.core.fleet.catalog import Model
from llmgw.core.fleet.copies import Copy
from llmgw.core.fleet.orders import Roll
from llmgw.core.fleet.restarts import Attempts, is_failing, retry_at
from llmgw.core.fleet.shards import Phase, ShardSpec
from llmgw.core.fleet.turnover import to_start
from llmgw.core.ids import replica_id, shard_id
from llmgw.core.placement.place import Placed, Refused, place
from llmgw.core.placement.room import claim
from llmgw.core.reconcile.actions import Start
from llmgw.core.reconcile.draft import Draft
from llmgw.core.reconcile.gang import gang_of
from llmgw.core.reconcile.orders import note_room
from llmgw.core.reconcile.parts import Parts

_COMING = (Phase.PENDING, Phase.FETCHING, Phase.STARTING)


def fill(
    draft: Draft, model: Model, parts: Parts, wanted: int, roll: Roll | None, first: Sequence[int] = ()
) -> int:
    """Start what is missing, the ordinals `first` before others.

    Returns:
        How many drained copies fit nowhere else and need not be waited for.
    """
    leaving = draft.leaving.get(model.name, ())
    coming = sum(copy.phase in _COMING for copy in parts.fresh) + len(leaving)
    starts = to_start(
        wanted=wanted,
        fresh=len(parts.fresh),
        coming=coming,
        drained=len(parts.drained),
        rolled=len(parts.rolled),
    )
    # A replica on several nodes takes again what the one before it has to give back first, all of it.
    vacant = max(0, starts.vacant - sum(copy.ranks > 1 for copy in leaving))
    taken = parts.ordinals() | {copy.ordinal for copy in leaving}
    because: list[str | None] = [None] * vacant
    because += [_takes_over(copy) for copy in (*parts.drained, *parts.rolled)][: starts.surge]
    unplaced = _start_some(draft, model, _free_ordinals(taken, len(because), first), because)
    if roll is not None:
        note_room(draft, model, roll, is_refused=unplaced > 0 and bool(parts.rolled))
    surplus = min(unplaced, starts.surge, len(parts.drained))
    return 0 if surplus and draft.is_unsettled else surplus


def retry(draft: Draft, model: Model, copy: Copy) -> None:
    """Start a failed replica again when it is due and nothing of it, or of an earlier generation, runs any more."""
    ending = (other for other in draft.leaving.get(model.name, ()) if other.ranks > 1)
    if not copy.is_over or any(other.replica == copy.replica for other in ending):
        return
    edited = copy.lead.fingerprint is not None and model.profile_of(copy.lead.fingerprint) is None
    due = retry_at(draft.fleet.attempts.get(copy.replica, Attempts()))
    if not edited and draft.now < due:
        draft.wait_until(due)
        return
    failed = next(member.state for member in copy.members if member.state.phase == Phase.FAILED)
    why = "its profile was edited" if edited else f"it failed ({failed.reason or 'no reason given'})"
    placed = _start(draft, model, copy.ordinal, f"again, since {why}")
    if placed is None:
        return
    # The same node replaces its failed shard by itself, being told to start a later generation of it.
    replaced = {(seat.node, shard_id(copy.replica, rank)) for rank, seat in enumerate(placed.seats)}
    left = [member for member in copy.members if (member.node.id, member.state.shard) not in replaced]
    draft.end(copy, left, f"{copy.replica} starts again on {', '.join(seat.node for seat in placed.seats)}")


def _start_some(draft: Draft, model: Model, ordinals: list[int], because: Sequence[str | None]) -> int:
    """Start replicas of these ordinals that are due; returns how many are left when one fits nowhere."""
    for count, (ordinal, why) in enumerate(zip(ordinals, because, strict=True)):
        attempts = draft.fleet.attempts.get(replica_id(model.name, ordinal), Attempts())
        due = retry_at(attempts)
        if is_failing(attempts) and draft.now < due:
            draft.wait_until(due)
        elif not _start(draft, model, ordinal, why or _first_because(attempts)):
            return len(ordinals) - count
    return 0


def _start(draft: Draft, model: Model, ordinal: int, because: str) -> Placed | None:
    choice = place(model, draft.rooms, draft.needs)
    if isinstance(choice, Refused):
        draft.refused[model.name] = choice
        return None
    generation = draft.next_generation()
    gang = gang_of(choice, draft.fleet, generation)
    replica, fingerprint = replica_id(model.name, ordinal), choice.profile.fingerprint()
    for rank, seat in enumerate(choice.seats):
        spec = ShardSpec(
            shard=shard_id(replica, rank),
            replica=replica,
            model=model.name,
            ordinal=ordinal,
            rank=rank,
            generation=generation,
            fingerprint=fingerprint,
            profile=choice.profile,
            claim=seat.claim,
            gang=gang,
        )
        draft.rooms[seat.node] = claim(draft.rooms[seat.node], model.name, seat.claim)
        draft.start(Start(node=seat.node, spec=spec, because=f"{because}; {choice.because}"))
    draft.restarts.pop(replica, None)
    return choice


def _takes_over(copy: Copy) -> str:
    return f"it takes over from {copy.replica} on {copy.where}"


def _free_ordinals(taken: set[int], count: int, first: Sequence[int]) -> list[int]:
    free = [ordinal for ordinal in first if ordinal not in taken][:count]
    ordinal = 0
    while len(free) < count:
        if ordinal not in taken and ordinal not in free:
            free.append(ordinal)
        ordinal += 1
    return free


def _first_because(attempts: Attempts) -> str:
    return "one more replica is wanted" if attempts == Attempts() else "the replica is gone"
