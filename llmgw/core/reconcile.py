"""From what is wanted and what is observed to what is to be done, each with its because.

Rules, in their order:

1. Of two copies of one replica (a partition may have made two) the later generation stays. A ready older one is
   stopped only when the later is ready too, and outlives a later one that failed.
2. A shard whose model or profile left the catalog is stopped, and one that has ended is to be forgotten. One whose
   profile was edited is stale, and stays.
3. More replicas than wanted: failed ones go first, then those not ready, then those on unreachable nodes, then the
   highest ordinals.
4. A failed replica starts again when its backoff is over, or at once when its profile was edited since.
5. Fewer replicas than wanted: new ones take the lowest free ordinals, one placement after the other, each seeing
   the room that the earlier ones left. One that failed last and is nowhere any more waits for its backoff all the same.

What runs on a lost node counts as gone; on an unreachable one it counts as running, and is told nothing until its
node is back. A shard that is leaving (it was told to stop) counts for nothing and is not told again.

Generations grow over everything observed: a database that was restored from a backup may give out an epoch twice,
and an agent takes nothing that is older than what it has.
"""

import msgspec

from llmgw.core.fleet.catalog import Catalog, Model, Profile
from llmgw.core.fleet.restarts import Attempts, is_failing, retry_at
from llmgw.core.fleet.shards import Phase, ShardSpec, ShardState
from llmgw.core.fleet.snapshot import Fleet, NodeState, is_leaving
from llmgw.core.ids import Generation, replica_id, shard_id
from llmgw.core.placement.demand import demand_of
from llmgw.core.placement.place import Placed, Refused, place
from llmgw.core.placement.room import Room, claim, rooms_of


class Start(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Tell a node to start a shard."""

    node: str
    spec: ShardSpec
    because: str


class Stop(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Tell a node to stop a shard of this generation or an older one, and to forget it."""

    node: str
    shard: str
    generation: Generation
    because: str


Action = Start | Stop

_ENDED = frozenset({Phase.FAILED, Phase.STOPPED})


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What to do now.

    Attributes:
        refused: models of which a replica fits nowhere.
        epoch: of the generations given out: the server's own unless a later one was observed.
        counter: the highest generation counter used so far.
        next_now: monotonic seconds at which planning again may give something new, by backoff; None when nothing waits.
    """

    actions: tuple[Action, ...] = ()
    refused: dict[str, Refused] = {}
    epoch: int = 0
    counter: int = 0
    next_now: float | None = None


class _Copy(msgspec.Struct, frozen=True):
    """One observed shard and where it is.

    Attributes:
        older: ready copies of earlier generations that serve until this one is ready, and share its fate.
    """

    node: str
    state: ShardState
    older: tuple["_Copy", ...] = ()


class _Draft:
    """A plan while it is made."""

    def __init__(self, fleet: Fleet, epoch: int, counter: int, now: float) -> None:
        self.fleet = fleet
        self.rooms = rooms_of(fleet)
        self.epoch, self.counter = _latest(fleet, epoch, counter)
        self.now = now
        self.actions: list[Action] = []
        self.refused: dict[str, Refused] = {}
        self.next_now: float | None = None

    def stop(self, copy: _Copy, because: str) -> None:
        for older in copy.older:
            self.stop(older, because)
        state = copy.state
        if self.fleet.nodes[copy.node].state == NodeState.UNREACHABLE:
            return
        self.actions.append(
            Stop(node=copy.node, shard=state.shard, generation=state.generation, because=because)
        )

    def wait_until(self, due: float) -> None:
        self.next_now = due if self.next_now is None else min(self.next_now, due)


def plan(desired: Catalog, fleet: Fleet, *, epoch: int, counter: int, now: float) -> Plan:
    """Decide what to do about the difference between `desired` and `fleet`.

    Args:
        epoch: number of this server start.
        counter: the highest generation counter given out in this epoch.
        now: monotonic seconds, for backoff.
    """
    draft = _Draft(fleet, epoch, counter, now)
    by_model = _surviving_copies(draft)
    for name in sorted(by_model.keys() - {m.name for m in desired.models}):
        for copy in by_model[name]:
            draft.stop(copy, f"model {name!r} left the catalog")
    for model in desired.models:
        _settle(draft, model, by_model.get(model.name, []))
    return Plan(
        actions=tuple(draft.actions),
        refused=draft.refused,
        epoch=draft.epoch,
        counter=draft.counter,
        next_now=draft.next_now,
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
    # Until the later one answers, the older one is all that clients have.
    older = () if stays.state.phase == Phase.READY else tuple(ready)
    for copy in copies:
        if copy is not stays and copy not in older:
            draft.stop(
                copy,
                f"generation {stays.state.generation} of {stays.state.replica} runs on {stays.node} instead",
            )
    return msgspec.structs.replace(stays, older=older)


def _settle(draft: _Draft, model: Model, copies: list[_Copy]) -> None:
    kept = _kept(draft, model, copies)
    for copy in kept:
        if copy.state.phase == Phase.FAILED:
            _retry(draft, model, copy)
    taken = {copy.state.ordinal for copy in kept}
    for ordinal in _free_ordinals(taken, model.replicas - len(kept)):
        attempts = draft.fleet.attempts.get(replica_id(model.name, ordinal), Attempts())
        due = retry_at(attempts)
        if is_failing(attempts) and draft.now < due:
            draft.wait_until(due)
        elif not _start(draft, model, ordinal, _first_because(attempts)):
            break


def _kept(draft: _Draft, model: Model, copies: list[_Copy]) -> list[_Copy]:
    """Apply rules 2 and 3: the copies that stay."""
    names = {profile.name for profile in model.profiles}
    kept: list[_Copy] = []
    for copy in sorted(copies, key=lambda c: _keep_order(draft.fleet, c)):
        profile = copy.state.profile
        if copy.state.phase == Phase.STOPPED:
            draft.stop(copy, "it has ended")
        elif profile is not None and profile not in names:
            draft.stop(copy, f"profile {profile!r} left model {model.name!r}")
        elif len(kept) >= model.replicas:
            draft.stop(copy, f"{len(copies)} replicas of {model.name!r} run, {model.replicas} are wanted")
        else:
            kept.append(copy)
    return kept


def _retry(draft: _Draft, model: Model, copy: _Copy) -> None:
    state = copy.state
    edited = state.fingerprint is not None and model.profile_of(state.fingerprint) is None
    due = retry_at(draft.fleet.attempts.get(state.replica, Attempts()))
    if not edited and draft.now < due:
        draft.wait_until(due)
        return
    why = "its profile was edited" if edited else f"it failed ({state.reason or 'no reason given'})"
    room = draft.rooms[copy.node]
    placed = _start(draft, model, state.ordinal, f"again, since {why}")
    # The same node replaces its failed shard by itself, being told to start a later generation of it.
    if placed and placed.node != room.node.id:
        draft.stop(copy, f"{state.replica} starts again on {placed.node}")


def _start(draft: _Draft, model: Model, ordinal: int, because: str) -> Placed | None:
    choice = place(model, draft.rooms)
    if isinstance(choice, Refused):
        draft.refused[model.name] = choice
        return None
    draft.counter += 1
    spec = _spec(model, choice.profile, ordinal, Generation(draft.epoch, draft.counter))
    room: Room = draft.rooms[choice.node]
    draft.rooms[choice.node] = claim(room, model.name, demand_of(choice.profile).memory_bytes)
    draft.actions.append(Start(node=choice.node, spec=spec, because=f"{because}; {choice.because}"))
    return choice


def _spec(model: Model, profile: Profile, ordinal: int, generation: Generation) -> ShardSpec:
    replica = replica_id(model.name, ordinal)
    return ShardSpec(
        shard=shard_id(replica, 0),
        replica=replica,
        model=model.name,
        ordinal=ordinal,
        generation=generation,
        fingerprint=profile.fingerprint(),
        profile=profile,
    )


def _keep_order(fleet: Fleet, copy: _Copy) -> tuple[int, bool, int]:
    """Order copies by how much they are worth keeping, the most first."""
    phase = copy.state.phase
    worth = 0 if phase == Phase.READY else 2 if phase in _ENDED else 1
    return worth, fleet.nodes[copy.node].state == NodeState.UNREACHABLE, copy.state.ordinal


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
