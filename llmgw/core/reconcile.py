"""From what is wanted and what is observed to what is to be done, each with its because.

Rules, in their order:

1. Of two copies of one replica (a partition may have made two) the later generation stays. A ready older one is
   stopped only when the later is ready too, on a node within reach, and outlives a later one that failed.
2. A shard whose model or profile left the catalog is stopped, and one that has ended is to be forgotten. One whose
   profile was edited is stale, and stays. One that this server's database never knew is left alone (strangers.py).
3. A replica that is to be restarted is stopped, and its place is kept until it has ended.
4. What is on a node that is drained, and what is rolled, is old: when it is ready it goes only when enough others are
   ready, and at once when it is not. Where a drained one fits on no other node, it goes without a replacement; a roll
   stops then, as it does when a new replica fails.
5. More replicas than wanted: failed ones go first, then those not ready, then those on unreachable nodes, then stale
   ones, then the highest ordinals.
6. A failed replica starts again when its backoff is over, or at once when its profile was edited since.
7. Fewer replicas than wanted: new ones take the lowest free ordinals, one placement after the other, each seeing
   the room that the earlier ones left. One that failed last and is nowhere any more waits for its backoff all the same.

What runs on a lost node counts as gone; on an unreachable one it counts as running, and is told nothing until its
node is back. A shard that is leaving (it was told to stop) counts for nothing and is not told again; while it may have
requests in flight its ordinal is not given to another, for an agent ends the earlier of two that are called the same.

Generations grow over everything observed: a database that was restored from a backup may give out an epoch twice,
and an agent takes nothing that is older than what it has.
"""

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property

import msgspec
from msgspec.structs import replace

from llmgw.core.fleet.catalog import Catalog, Model, Profile
from llmgw.core.fleet.orders import ROOM_WITHIN_S, Orders, Roll, RollState, stopped
from llmgw.core.fleet.restarts import Attempts, is_failing, retry_at
from llmgw.core.fleet.shards import LIVE, Claim, Phase, ShardSpec, ShardState
from llmgw.core.fleet.snapshot import Fleet, NodeState, is_leaving
from llmgw.core.fleet.turnover import may_go, to_start
from llmgw.core.ids import Generation, replica_id, shard_id
from llmgw.core.placement.need import Need
from llmgw.core.placement.place import Placed, Refused, place
from llmgw.core.placement.room import Room, claim, rooms_of


class Start(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Tell a node to start a shard."""

    node: str
    spec: ShardSpec
    because: str


class Stop(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Tell a node to stop a shard of this generation or an older one, and to forget it.

    Attributes:
        serves: it may have requests in flight, which finish first.
    """

    node: str
    shard: str
    replica: str
    generation: Generation
    because: str
    serves: bool = False


Action = Start | Stop

_ENDED = frozenset({Phase.FAILED, Phase.STOPPED})
_COMING = frozenset({Phase.PENDING, Phase.FETCHING, Phase.STARTING})
_SERVING = frozenset({Phase.READY, Phase.DRAINING})


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What to do now.

    Attributes:
        refused: models of which a replica fits nowhere.
        epoch: of the generations given out: the server's own unless a later one was observed.
        counter: the highest generation counter used so far.
        next_now: monotonic seconds at which planning again may give something new, by backoff; None when nothing waits.
        orders: as they stand now; those of models that left are gone.
    """

    actions: tuple[Action, ...] = ()
    refused: dict[str, Refused] = {}
    epoch: int = 0
    counter: int = 0
    next_now: float | None = None
    orders: Orders = Orders()


_NEVER = Generation(-1, 0)


class _Copy(msgspec.Struct, frozen=True):
    """One observed shard and where it is.

    Attributes:
        older: ready copies of earlier generations that serve until this one is ready, and share its fate.
    """

    node: str
    state: ShardState
    older: tuple["_Copy", ...] = ()


class _Draft:
    """A plan while it is made.

    Attributes:
        leaving: shards that were told to stop and may still have requests in flight, by model.
        restarts: restarts that are not over.
    """

    def __init__(
        self,
        fleet: Fleet,
        epoch: int,
        counter: int,
        now: float,
        orders: Orders,
        needs: Mapping[str, Need],
    ) -> None:
        self.fleet = fleet
        self.needs = needs
        self.epoch, self.counter = _latest(fleet, epoch, counter)
        self.now = now
        self.orders = orders
        self.actions: list[Action] = []
        self.refused: dict[str, Refused] = {}
        self.next_now: float | None = None
        self.leaving: dict[str, list[ShardState]] = {}
        self.rolls: dict[str, Roll] = {}
        self.restarts: dict[str, Generation] = {}

    def is_reachable(self, copy: _Copy) -> bool:
        return self.fleet.nodes[copy.node].state != NodeState.UNREACHABLE

    def stop(self, copy: _Copy, because: str) -> None:
        for older in copy.older:
            self.stop(older, because)
        state = copy.state
        if self.is_reachable(copy):
            stop = Stop(
                node=copy.node,
                shard=state.shard,
                replica=state.replica,
                generation=state.generation,
                because=because,
                serves=state.phase == Phase.READY,
            )
            self.actions.append(stop)
            if stop.serves:
                self.leaving.setdefault(state.model, []).append(state)

    def wait_until(self, due: float) -> None:
        self.next_now = due if self.next_now is None else min(self.next_now, due)

    @cached_property
    def rooms(self) -> dict[str, Room]:
        """Room of every node, less what this plan has placed there; most plans place nothing and never ask."""
        return rooms_of(self.fleet)

    @cached_property
    def is_unsettled(self) -> bool:
        """Whether there may soon be more room: a node may come back, or something is just ending."""
        for node in self.fleet.nodes.values():
            if node.state == NodeState.UNREACHABLE:
                return True
            if node.state == NodeState.READY and any(is_leaving(node, s) for s in node.shards.values()):
                return True
        return False


def plan(
    desired: Catalog,
    fleet: Fleet,
    *,
    epoch: int,
    counter: int,
    now: float,
    orders: Orders | None = None,
    strange: Collection[tuple[str, str]] = (),
    needs: Mapping[str, Need] | None = None,
) -> Plan:
    """Say what to do.

    Args:
        epoch: of this server start; becomes part of new generations.
        counter: the highest generation counter given out in this epoch.
        now: monotonic seconds.
        orders: what an operator ordered beside the catalog; nothing when None.
        strange: node and shard of each engine that is left alone.
        needs: what is known of the needs of profiles beyond the catalog, by their fingerprint.
    """
    draft = _Draft(fleet, epoch, counter, now, orders or Orders(), needs or {})
    by_model = _surviving_copies(draft)
    for name in sorted(by_model.keys() - {m.name for m in desired.models}):
        for copy in by_model[name]:
            if (copy.node, copy.state.shard) not in strange:
                draft.stop(copy, f"model {name!r} left the catalog")
    for model in desired.models:
        _settle(draft, model, by_model.get(model.name, []))
    return Plan(
        actions=tuple(draft.actions),
        refused=draft.refused,
        epoch=draft.epoch,
        counter=draft.counter,
        next_now=draft.next_now,
        orders=Orders(rolls=draft.rolls, restarts=draft.restarts),
    )


def _latest(fleet: Fleet, epoch: int, counter: int) -> tuple[int, int]:
    observed = max(
        (shard.generation for node in fleet.nodes.values() for shard in node.shards.values()),
        default=Generation(0, 0),
    )
    latest = max(observed, Generation(epoch, counter))
    return latest.epoch, latest.counter


def _surviving_copies(draft: _Draft) -> dict[str, list[_Copy]]:
    """Apply rule 1: one copy of every shard, by model."""
    copies: dict[str, list[_Copy]] = {}
    for node in draft.fleet.nodes.values():
        if node.state == NodeState.LOST:
            continue
        for state in node.shards.values():
            if not is_leaving(node, state):
                copies.setdefault(state.shard, []).append(_Copy(node.id, state))
            elif state.phase in _SERVING:
                draft.leaving.setdefault(state.model, []).append(state)
    by_model: dict[str, list[_Copy]] = {}
    for of_one in copies.values():
        copy = _survivor(draft, sorted(of_one, key=lambda c: c.state.generation))
        by_model.setdefault(copy.state.model, []).append(copy)
    return by_model


def _survivor(draft: _Draft, copies: list[_Copy]) -> _Copy:
    """Choose which copy of one shard stays, the latest last, and stop those that need not wait for it."""
    latest = copies[-1]
    ready = [copy for copy in copies if copy.state.phase == Phase.READY]
    stays = ready[-1] if ready and latest.state.phase in _ENDED else latest
    # Until the later one is known to answer, the older one is all that clients have: what a node that is out of reach
    # said last proves nothing.
    answers = stays.state.phase == Phase.READY and draft.is_reachable(stays)
    older = () if answers else tuple(copy for copy in ready if copy is not stays)
    for copy in copies:
        if copy is not stays and copy not in older:
            draft.stop(
                copy,
                f"older generation {copy.state.generation} of {copy.state.replica} stopped here, "
                f"{stays.state.generation} runs on {stays.node}",
            )
    return replace(stays, older=older)


class _Parts:
    """The copies of one model that stay for now; see turnover.py for the words."""

    def __init__(self) -> None:
        self.fresh: list[_Copy] = []
        self.drained: list[_Copy] = []
        self.rolled: list[_Copy] = []

    def ordinals(self) -> set[int]:
        return {copy.state.ordinal for copy in (*self.fresh, *self.drained, *self.rolled)}


def _settle(draft: _Draft, model: Model, copies: list[_Copy]) -> None:
    roll = _judged_roll(draft, model, copies)
    copies, kept_places = _restarted(draft, model, copies)
    wanted = model.replicas - kept_places
    parts = _parted(draft, model, copies, wanted, roll)
    for copy in parts.fresh:
        if copy.state.phase == Phase.FAILED:
            _retry(draft, model, copy)
    if len(parts.fresh) == wanted and not parts.drained and not parts.rolled:
        return
    homeless = _fill(draft, model, parts, wanted, roll)
    _let_go(draft, parts, wanted, homeless)


def _judged_roll(draft: _Draft, model: Model, copies: list[_Copy]) -> Roll | None:
    """Bring a roll up to what is observed; gives it back while there is something to do."""
    roll = draft.orders.rolls.get(model.name)
    if roll is None:
        return None
    if roll.is_rolling():
        left = sum(roll.is_target(copy.state) for copy in copies)
        roll = replace(roll, left=left, state=RollState.ROLLING if left else RollState.DONE)
        failed = next(
            (c for c in copies if c.state.phase == Phase.FAILED and c.state.generation > roll.began), None
        )
        if failed is not None and left:
            state = failed.state
            said = state.reason or "no reason given"
            roll = stopped(
                roll, f"the new {state.replica} ({state.generation}) failed on {failed.node}: {said}"
            )
        elif not left:
            roll = replace(roll, why=None, refused_now=None)
    draft.rolls[model.name] = roll
    return roll if roll.is_rolling() else None


def _restarted(draft: _Draft, model: Model, copies: list[_Copy]) -> tuple[list[_Copy], int]:
    """Apply rule 3: the other copies, and how many places are kept for what is ending."""
    orders = draft.orders.restarts
    if not orders:
        return copies, 0
    others, places = [], 0
    for state in draft.leaving.get(model.name, ()):
        if state.generation <= orders.get(state.replica, _NEVER):
            draft.restarts[state.replica] = orders[state.replica]
            places += 1
    for copy in copies:
        state = copy.state
        if state.generation > orders.get(state.replica, _NEVER) or state.phase not in LIVE:
            others.append(copy)
        elif not draft.is_reachable(copy):
            draft.restarts[state.replica] = orders[state.replica]
            others.append(copy)
        else:
            draft.restarts[state.replica] = orders[state.replica]
            draft.stop(copy, "an operator asked to restart it")
            places += state.phase == Phase.READY
    return others, places


def _parted(draft: _Draft, model: Model, copies: list[_Copy], wanted: int, roll: Roll | None) -> _Parts:
    """Apply rules 2, 4 and 5 to all that does not stay."""
    names = {profile.name for profile in model.profiles}
    parts = _Parts()
    for copy in _by_worth(draft, model, copies):
        state, node = copy.state, draft.fleet.nodes[copy.node]
        if state.phase == Phase.STOPPED:
            draft.stop(copy, "it has ended")
        elif state.profile is not None and state.profile not in names:
            draft.stop(copy, f"profile {state.profile!r} left model {model.name!r}")
        elif node.intent == NodeState.DRAINING:
            _part_old(draft, copy, parts.drained, f"node {node.id} is drained")
        elif roll is not None and roll.is_target(state):
            _part_old(draft, copy, parts.rolled, f"model {model.name!r} is rolled")
        elif len(parts.fresh) >= wanted:
            draft.stop(copy, f"{len(copies)} replicas of {model.name!r} run, {model.replicas} are wanted")
        else:
            parts.fresh.append(copy)
    return parts


def _part_old(draft: _Draft, copy: _Copy, old: list[_Copy], because: str) -> None:
    if copy.state.phase == Phase.READY:
        old.append(copy)
    else:
        draft.stop(copy, because)


def _fill(draft: _Draft, model: Model, parts: _Parts, wanted: int, roll: Roll | None) -> int:
    """Start what is missing; returns how many drained copies fit nowhere else and need not be waited for."""
    leaving = draft.leaving.get(model.name, ())
    coming = sum(copy.state.phase in _COMING for copy in parts.fresh) + len(leaving)
    starts = to_start(
        wanted=wanted,
        fresh=len(parts.fresh),
        coming=coming,
        drained=len(parts.drained),
        rolled=len(parts.rolled),
    )
    taken = parts.ordinals() | {state.ordinal for state in leaving}
    because = [None] * starts.vacant + [_takes_over(c) for c in (*parts.drained, *parts.rolled)][
        : starts.surge
    ]
    unplaced = _start_some(draft, model, _free_ordinals(taken, len(because)), because)
    if roll is not None:
        _note_room(draft, model, roll, is_refused=unplaced > 0 and bool(parts.rolled))
    surplus = min(unplaced, starts.surge, len(parts.drained))
    return 0 if surplus and draft.is_unsettled else surplus


def _start_some(draft: _Draft, model: Model, ordinals: list[int], because: Sequence[str | None]) -> int:
    """Start replicas of these ordinals that are due; returns how many are left when one fits nowhere."""
    for count, (ordinal, why) in enumerate(zip(ordinals, because, strict=True)):
        attempts = draft.fleet.attempts.get(replica_id(model.name, ordinal), Attempts())
        due = retry_at(attempts)
        if is_failing(attempts) and draft.now < due:
            draft.wait_until(due)
        elif not _start(draft, model, ordinal, why or _first_because(attempts)):
            return len(ordinals) - count
    return 0


def _note_room(draft: _Draft, model: Model, roll: Roll, *, is_refused: bool) -> None:
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


def _let_go(draft: _Draft, parts: _Parts, wanted: int, homeless: int) -> None:
    """Apply rule 4: stop the old ones in whose place enough others are ready."""
    drained = [copy for copy in parts.drained if draft.is_reachable(copy)]
    rolled = [copy for copy in parts.rolled if draft.is_reachable(copy)]
    ready = sum(copy.state.phase == Phase.READY and draft.is_reachable(copy) for copy in parts.fresh)
    count = may_go(wanted=wanted, fresh_ready=ready, old_ready=len(drained) + len(rolled))
    for copy in (*drained, *rolled)[:count]:
        draft.stop(copy, f"{_why_old(copy, parts)}, and enough other replicas are ready")
    for copy in drained[count:][:homeless]:
        draft.stop(copy, f"node {copy.node} is drained, and it fits on no other node")


def _takes_over(copy: _Copy) -> str:
    return f"it takes over from {copy.state.replica} on {copy.node}"


def _why_old(copy: _Copy, parts: _Parts) -> str:
    return f"node {copy.node} is drained" if copy in parts.drained else "it is rolled"


def _retry(draft: _Draft, model: Model, copy: _Copy) -> None:
    state = copy.state
    edited = state.fingerprint is not None and model.profile_of(state.fingerprint) is None
    due = retry_at(draft.fleet.attempts.get(state.replica, Attempts()))
    if not edited and draft.now < due:
        draft.wait_until(due)
        return
    why = "its profile was edited" if edited else f"it failed ({state.reason or 'no reason given'})"
    placed = _start(draft, model, state.ordinal, f"again, since {why}")
    # The same node replaces its failed shard by itself, being told to start a later generation of it.
    if placed and placed.node != copy.node:
        draft.stop(copy, f"{state.replica} starts again on {placed.node}")


def _start(draft: _Draft, model: Model, ordinal: int, because: str) -> Placed | None:
    choice = place(model, draft.rooms, draft.needs)
    if isinstance(choice, Refused):
        draft.refused[model.name] = choice
        return None
    draft.counter += 1
    seat = choice.seats[0]
    spec = _spec(model, choice.profile, ordinal, Generation(draft.epoch, draft.counter), seat.claim)
    draft.rooms[seat.node] = claim(draft.rooms[seat.node], model.name, seat.claim)
    draft.actions.append(Start(node=choice.node, spec=spec, because=f"{because}; {choice.because}"))
    return choice


def _spec(model: Model, profile: Profile, ordinal: int, generation: Generation, claim: Claim) -> ShardSpec:
    replica = replica_id(model.name, ordinal)
    return ShardSpec(
        shard=shard_id(replica, 0),
        replica=replica,
        model=model.name,
        ordinal=ordinal,
        generation=generation,
        fingerprint=profile.fingerprint(),
        profile=profile,
        claim=claim,
    )


def _by_worth(draft: _Draft, model: Model, copies: list[_Copy]) -> list[_Copy]:
    """Order copies by how much they are worth keeping, the most first."""
    # Fingerprints are hashes; they are asked for only where somebody has to go.
    prints = {p.fingerprint() for p in model.profiles} if len(copies) > model.replicas else None

    def key(copy: _Copy) -> tuple[int, bool, bool, int]:
        state = copy.state
        worth = 0 if state.phase == Phase.READY else 2 if state.phase in _ENDED else 1
        stale = prints is not None and state.fingerprint is not None and state.fingerprint not in prints
        return worth, not draft.is_reachable(copy), stale, state.ordinal

    return sorted(copies, key=key)


def _free_ordinals(taken: set[int], count: int) -> list[int]:
    free: list[int] = []
    ordinal = 0
    while len(free) < count:
        if ordinal not in taken:
            free.append(ordinal)
        ordinal += 1
    return free


def _first_because(attempts: Attempts) -> str:
    return "one more replica is wanted" if attempts == Attempts() else "the replica is gone"
