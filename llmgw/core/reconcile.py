"""From what is wanted and what is observed to what is to be done, each with its because.

Rules, in their order:

1. Of two copies of one replica the later generation stays; the older is stopped (a partition may have made two).
2. A shard whose model or profile left the catalog is stopped. One whose profile was edited is stale, and stays.
3. More replicas than wanted: failed ones go first, then those not ready, then the highest ordinals.
4. A failed replica starts again when its backoff is over, or at once when its profile was edited since.
5. Fewer replicas than wanted: new ones take the lowest free ordinals, one placement after the other, each seeing
   the room that the earlier ones left.

What runs on a lost node counts as gone; on an unreachable one it counts as running.
"""

import msgspec

from llmgw.core.fleet.catalog import Catalog, Model, Profile
from llmgw.core.fleet.restarts import Attempts, retry_at
from llmgw.core.fleet.shards import Phase, ShardSpec, ShardState
from llmgw.core.fleet.snapshot import Fleet, NodeState
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
    """Tell a node to stop a shard of this generation and to forget it."""

    node: str
    shard: str
    generation: Generation
    because: str


Action = Start | Stop


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What to do now.

    Attributes:
        refused: models of which a replica fits nowhere.
        counter: the highest generation counter used so far.
        next_now: monotonic seconds at which planning again may give something new, by backoff; None when nothing waits.
    """

    actions: tuple[Action, ...] = ()
    refused: dict[str, Refused] = {}
    counter: int = 0
    next_now: float | None = None


class _Copy(msgspec.Struct, frozen=True):
    """One observed shard and where it is."""

    node: str
    state: ShardState


class _Draft:
    """A plan while it is made."""

    def __init__(self, fleet: Fleet, epoch: int, counter: int, now: float) -> None:
        self.fleet = fleet
        self.rooms = rooms_of(fleet)
        self.epoch = epoch
        self.counter = counter
        self.now = now
        self.actions: list[Action] = []
        self.refused: dict[str, Refused] = {}
        self.next_now: float | None = None

    def stop(self, copy: _Copy, because: str) -> None:
        state = copy.state
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
    for name in by_model.keys() - {m.name for m in desired.models}:
        for copy in by_model[name]:
            draft.stop(copy, f"model {name!r} left the catalog")
    for model in desired.models:
        _settle(draft, model, by_model.get(model.name, []))
    return Plan(
        actions=tuple(draft.actions), refused=draft.refused, counter=draft.counter, next_now=draft.next_now
    )


def _surviving_copies(draft: _Draft) -> dict[str, list[_Copy]]:
    """Apply rule 1: the latest copy of every replica, by model."""
    latest: dict[str, _Copy] = {}
    for node in draft.fleet.nodes.values():
        if node.state == NodeState.LOST:
            continue
        for state in node.shards.values():
            copy = _Copy(node.id, state)
            other = latest.get(state.shard)
            if other is None:
                latest[state.shard] = copy
                continue
            older, newer = sorted((other, copy), key=lambda c: c.state.generation)
            latest[state.shard] = newer
            draft.stop(
                older, f"generation {newer.state.generation} of {state.replica} runs on {newer.node} instead"
            )
    by_model: dict[str, list[_Copy]] = {}
    for copy in latest.values():
        by_model.setdefault(copy.state.model, []).append(copy)
    return by_model


def _settle(draft: _Draft, model: Model, copies: list[_Copy]) -> None:
    names = {profile.name for profile in model.profiles}
    kept: list[_Copy] = []
    for copy in sorted(copies, key=_keep_order):
        profile = copy.state.profile
        if copy.state.phase == Phase.STOPPED:
            continue
        if profile is not None and profile not in names:
            draft.stop(copy, f"profile {profile!r} left model {model.name!r}")
        elif len(kept) >= model.replicas:
            draft.stop(copy, f"{len(copies)} replicas of {model.name!r} run, {model.replicas} are wanted")
        else:
            kept.append(copy)
    for copy in kept:
        if copy.state.phase == Phase.FAILED:
            _retry(draft, model, copy)
    taken = {copy.state.ordinal for copy in kept}
    for ordinal in _free_ordinals(taken, model.replicas - len(kept)):
        replica = replica_id(model.name, ordinal)
        attempts = draft.fleet.attempts.get(replica, Attempts())
        if not _start(draft, model, ordinal, _first_because(attempts)):
            break


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


def _keep_order(copy: _Copy) -> tuple[int, int]:
    """Order copies by how much they are worth keeping, the most first."""
    phase = copy.state.phase
    worth = 0 if phase == Phase.READY else 2 if phase == Phase.FAILED else 1
    return worth, copy.state.ordinal


def _free_ordinals(taken: set[int], count: int) -> list[int]:
    free: list[int] = []
    ordinal = 0
    while len(free) < count:
        if ordinal not in taken:
            free.append(ordinal)
        ordinal += 1
    return free


def _first_because(attempts: Attempts) -> str:
    return "one more replica is wanted" if attempts.ready_now is None else "the replica is gone"
