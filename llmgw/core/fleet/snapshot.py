"""The observed fleet as one immutable value, and how one observation changes it.

Guarantees:
1. A node that falls silent keeps what it reported: its engines may well go on serving.
2. Anything of an older connection or an older generation changes nothing.
3. A Register is a level: it replaces all that was known of the node's shards, except starts that are still on
   their way to it.
4. A shard that was told to stop is leaving: it counts for nothing any more, though it may still hold memory.
5. The state of a node is derived from what the operator wants (`intent`), whether it is connected and for how long
   it has been silent; `since` tells when the state last changed.
6. While most of the fleet is silent (silence.py) nobody is declared lost.
7. A lost node keeps nothing that another tells of in the same generation: the node has been renamed, and it is one
   process. The silence of a name that is told of like this is none.
"""

from collections.abc import Collection, Mapping
from datetime import datetime
from enum import StrEnum

import msgspec
from msgspec.structs import replace

from llmgw.core.fleet.beat import Beat, ShardUse
from llmgw.core.fleet.bounds import all_believed
from llmgw.core.fleet.by_id import ById
from llmgw.core.fleet.hardware import EngineInstall, Machine
from llmgw.core.fleet.restarts import Attempts, after_failure, after_ready
from llmgw.core.fleet.sanity import is_credible, sane, sane_beat, sane_machine, sane_shards, sane_weights
from llmgw.core.fleet.shards import LIVE, Phase, ShardSpec, ShardState, may_follow, pending_state
from llmgw.core.fleet.silence import Silence, accept, watch
from llmgw.core.fleet.weights import Holding
from llmgw.core.ids import Generation

_NOTHING_BESIDE = Beat()
RIVAL_FORGOTTEN_S = 60.0
"""How long after its last try another agent of the same name is spoken of."""


class NodeState(StrEnum):
    """Whether a node takes work, and if not, why."""

    READY = "ready"
    DRAINING = "draining"
    CORDONED = "cordoned"
    UNREACHABLE = "unreachable"
    LOST = "lost"


class Introduction(msgspec.Struct, frozen=True, kw_only=True):
    """What a node says when it registers.

    Attributes:
        address: where the router reaches its engines.
        engines: None from an agent too old to say; empty when it has none.
        shards: every engine process it looks after, ended ones included until it is told to forget them.
        weights: what it sees; None from an agent that does not say, or was not asked to look yet.
    """

    node: str
    address: str
    version: str | None = None
    pool: str = "default"
    labels: dict[str, str] = {}
    machine: Machine = Machine()
    engines: tuple[EngineInstall, ...] | None = None
    shards: tuple[ShardState, ...] = ()
    weights: tuple[Holding, ...] | None = None


class Rival(msgspec.Struct, frozen=True):
    """Another agent that calls itself by a node's name, and when it last tried (monotonic seconds)."""

    where: str
    tried_now: float


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """One node as last observed.

    Attributes:
        protocol: of the link, that its agent speaks (0 is one that does not say); None when nobody looked.
        uses: memory that its shards hold, by shard, as it measured last.
        stopping: shards it was told to stop, each with the latest generation that this is meant for.
        connection: number of its latest connection; grows, so that late news of an old one is told apart.
        heard_now: monotonic seconds from which its silence is counted: of its last frame, or of a later stall of ours.
        said_now: monotonic seconds of its last frame.
        registered_now: monotonic seconds at which its latest connection registered.
        gone_now: monotonic seconds since which it is unreachable; None while it is not.
        seen_at: time of its last frame, for people.
    """

    id: str
    address: str
    version: str | None = None
    protocol: int | None = None
    pool: str = "default"
    labels: dict[str, str] = {}
    machine: Machine = Machine()
    engines: tuple[EngineInstall, ...] | None = None
    shards: dict[str, ShardState] = {}
    weights: tuple[Holding, ...] | None = None
    uses: dict[str, ShardUse] = {}
    stopping: dict[str, Generation] = {}
    intent: NodeState = NodeState.READY
    state: NodeState = NodeState.READY
    since: datetime
    seen_at: datetime
    connection: int = 0
    heard_now: float = 0.0
    said_now: float = 0.0
    registered_now: float = 0.0
    gone_now: float | None = None
    rival: Rival | None = None


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """All nodes by id, and the failures of replicas by replica id.

    Attributes:
        intents: what an operator wants of nodes, those included that have not registered; others are to be ready.
    """

    nodes: Mapping[str, Node] = ById()
    attempts: dict[str, Attempts] = {}
    intents: dict[str, NodeState] = {}
    silence: Silence = Silence()


def is_leaving(node: Node, shard: ShardState) -> bool:
    """Tell whether a shard was told to stop, or says itself that it is about to."""
    told = node.stopping.get(shard.shard)
    return shard.phase == Phase.DRAINING or (told is not None and shard.generation <= told)


def register(
    fleet: Fleet,
    said: Introduction,
    *,
    connection: int,
    now: float,
    at: datetime,
    on_the_way: Mapping[str, Generation] | None = None,
    protocol: int | None = None,
) -> Fleet:
    """Take what a node said at its (re)connection; it is ready again, and its shards are what it says they are.

    Args:
        protocol: as in Node.
        on_the_way: generations of shards whose start was sent on this very connection and not acknowledged when
            this was said; the node cannot have named them.
    """
    known = fleet.nodes.get(said.node)
    if known is not None and connection < known.connection:
        return fleet
    said = _sane(said)
    # Only a node that says it all again on a live connection (its hardware changed) still knows what it was told.
    same_link = known if known is not None and connection == known.connection else None
    intent = fleet.intents.get(said.node, NodeState.READY)
    same = known is not None and known.state == intent
    node = Node(
        id=said.node,
        address=said.address,
        version=said.version,
        protocol=protocol,
        pool=said.pool,
        labels=said.labels,
        machine=said.machine,
        engines=said.engines,
        weights=said.weights,
        shards=_level(said, same_link, on_the_way or {}),
        stopping=same_link.stopping if same_link else {},
        uses=same_link.uses if same_link else {},
        intent=intent,
        state=intent,
        since=known.since if known is not None and same else at,
        seen_at=at,
        connection=connection,
        heard_now=now,
        said_now=now,
        registered_now=now,
    )
    fleet = _with(fleet, node)
    for shard in said.shards:
        before = known.shards.get(shard.shard) if known else None
        if before is None or (before.generation, before.phase) != (shard.generation, shard.phase):
            fleet = _counted(fleet, shard, now)
    return _told_once(fleet)


def heard(
    fleet: Fleet,
    node_id: str,
    *,
    connection: int,
    now: float,
    at: datetime,
    said: Beat = _NOTHING_BESIDE,
) -> Fleet:
    """Note that a node's connection gave a sign of life, and what it said beside."""
    node = _current(fleet, node_id, connection)
    if node is None:
        return fleet
    said = sane_beat(said)
    back = node.state in (NodeState.UNREACHABLE, NodeState.LOST)
    return _with(
        fleet,
        replace(
            node,
            heard_now=now,
            said_now=now,
            seen_at=at,
            gone_now=None,
            state=node.intent if back else node.state,
            since=at if back else node.since,
            machine=_machine_after(node.machine, said),
            engines=node.engines if said.engines is None else said.engines,
            weights=node.weights if said.weights is None else said.weights,
            uses=node.uses if said.uses is None else {use.shard: use for use in said.uses},
        ),
    )


def _sane(said: Introduction) -> Introduction:
    return replace(
        said,
        machine=sane_machine(said.machine),
        engines=None if said.engines is None else all_believed(said.engines),
        weights=None if said.weights is None else sane_weights(said.weights),
        shards=sane_shards(said.shards),
    )


def _machine_after(machine: Machine, said: Beat) -> Machine:
    names = ("memory", "filesystems", "gpus", "fabrics")
    changes = {name: value for name in names if (value := getattr(said, name)) is not None}
    return replace(machine, **changes) if changes else machine


def shard_reported(fleet: Fleet, node_id: str, said: ShardState, *, connection: int, now: float) -> Fleet:
    """Take one transition; stopped shards are forgotten, older generations and impossible transitions ignored."""
    node = _current(fleet, node_id, connection)
    if node is None or not is_credible(said):
        return fleet
    said = sane(said)
    before = node.shards.get(said.shard)
    if before is not None:
        if said.generation < before.generation:
            return fleet
        same = said.generation == before.generation
        if same and said.phase != before.phase and not _reachable(before.phase, said.phase):
            return fleet
        changed = not same or said.phase != before.phase
    else:
        changed = True
    if said.phase == Phase.STOPPED:
        fleet = _with(fleet, _without(node, said.shard))
    else:
        fleet = _with(fleet, replace(node, shards=node.shards | {said.shard: said}))
    return _counted(fleet, said, now) if changed else fleet


def assigned(fleet: Fleet, node_id: str, spec: ShardSpec) -> Fleet:
    """Note that a node was told to start a shard, so that it is not placed twice before the node has answered."""
    node = fleet.nodes[node_id]
    return _with(fleet, replace(node, shards=node.shards | {spec.shard: pending_state(spec)}))


def told_to_stop(fleet: Fleet, node_id: str, shard: str, generation: Generation) -> Fleet:
    """Note that a node was told to stop a shard, so that it is told once and no request goes there any more."""
    node = fleet.nodes[node_id]
    return _with(fleet, replace(node, stopping=node.stopping | {shard: generation}))


def stop_taken(fleet: Fleet, node_id: str, shard: str, generation: Generation, *, connection: int) -> Fleet:
    """Note that a node has taken a stop: what did not run any more is gone at once, what runs reports its own end."""
    node = _current(fleet, node_id, connection)
    known = node.shards.get(shard) if node else None
    if node is None or known is None or known.generation > generation or known.phase in LIVE:
        return fleet
    return _with(fleet, _without(node, shard))


def start_refused(
    fleet: Fleet, node_id: str, spec: ShardSpec, reason: str, *, connection: int, now: float
) -> Fleet:
    """Note that a node would not take a start: the shard failed before it began."""
    node = _current(fleet, node_id, connection)
    known = node.shards.get(spec.shard) if node else None
    if known is None or known.generation != spec.generation or known.phase == Phase.FAILED:
        return fleet
    failed = replace(known, phase=Phase.FAILED, reason=reason)
    return shard_reported(fleet, node_id, failed, connection=connection, now=now)


def forgetting(fleet: Fleet, models: Collection[str]) -> Fleet:
    """Forget the failures of replicas whose model is not among `models` any more."""
    attempts = {
        replica: past for replica, past in fleet.attempts.items() if replica.rpartition(".")[0] in models
    }
    return fleet if len(attempts) == len(fleet.attempts) else replace(fleet, attempts=attempts)


def disconnected(fleet: Fleet, node_id: str, *, connection: int, now: float, at: datetime) -> Fleet:
    """Note that a connection ended; one that is not the latest changes nothing."""
    node = _current(fleet, node_id, connection)
    return fleet if node is None else _with(fleet, _gone(node, now, at))


def aged(
    fleet: Fleet,
    *,
    now: float,
    at: datetime,
    unreachable_after_s: float,
    lost_after_s: float,
    patient: bool = False,
) -> Fleet:
    """Move silent nodes to unreachable, and nodes that have been unreachable for long to lost.

    Args:
        patient: the silence may still be our own: nobody is lost by it and no alarm is raised.
    """
    for node in fleet.nodes.values():
        if node.rival is not None and now - node.rival.tried_now >= RIVAL_FORGOTTEN_S:
            fleet = _with(fleet, replace(node, rival=None))
    for node in fleet.nodes.values():
        if node.gone_now is None and now - node.heard_now >= unreachable_after_s:
            fleet = _with(fleet, _gone(node, now, at))
    if patient:
        return fleet
    fleet = _watched(fleet, now, at)
    if fleet.silence.alarm is not None:
        return fleet
    for node in fleet.nodes.values():
        gone = node.gone_now
        if gone is not None and node.state == NodeState.UNREACHABLE and now - gone >= lost_after_s:
            fleet = _told_once(_with(fleet, replace(node, state=NodeState.LOST, since=at)))
    return fleet


def contested(fleet: Fleet, node_id: str, where: str, *, now: float) -> Fleet:
    """Note that another agent, at address `where`, tried to register as a node that is there."""
    return _with(fleet, replace(fleet.nodes[node_id], rival=Rival(where, now)))


def silence_accepted(fleet: Fleet) -> Fleet:
    """Take an operator's word that the nodes which are away are gone."""
    return replace(fleet, silence=accept(fleet.silence, _undecided(fleet)))


def forgiven(fleet: Fleet, *, now: float) -> Fleet:
    """Start the timers of all nodes again, after a stall of the server itself; who was lost before stays lost."""
    nodes = {node_id: _forgiven(node, now, heard_now=now) for node_id, node in fleet.nodes.items()}
    return replace(fleet, nodes=nodes)


def forgotten(fleet: Fleet, node_id: str) -> Fleet:
    """Forget a node, and what was wanted of it."""
    nodes = {name: node for name, node in fleet.nodes.items() if name != node_id}
    intents = {name: intent for name, intent in fleet.intents.items() if name != node_id}
    return replace(fleet, nodes=nodes, intents=intents)


def intended(fleet: Fleet, node_id: str, intent: NodeState, *, at: datetime) -> Fleet:
    """Take what an operator wants of a node, registered or not: ready, draining or cordoned."""
    fleet = replace(fleet, intents=fleet.intents | {node_id: intent})
    node = fleet.nodes.get(node_id)
    if node is None:
        return fleet
    away = node.state in (NodeState.UNREACHABLE, NodeState.LOST)
    state = node.state if away else intent
    return _with(
        fleet, replace(node, intent=intent, state=state, since=node.since if state == node.state else at)
    )


def _watched(fleet: Fleet, now: float, at: datetime) -> Fleet:
    undecided = _undecided(fleet)
    connected = sum(node.gone_now is None for node in fleet.nodes.values())
    silence = watch(fleet.silence, connected=connected, undecided=undecided, at=at)
    if silence is fleet.silence:
        return fleet
    if fleet.silence.alarm is not None and silence.alarm is None:
        # Enough have returned that the others may be on their way too.
        nodes = {name: _forgiven(node, now) for name, node in fleet.nodes.items()}
        fleet = replace(fleet, nodes=nodes)
    return replace(fleet, silence=silence)


def _undecided(fleet: Fleet) -> dict[str, int]:
    """List nodes that are away and not declared lost, each with the number of its last connection.

    A former name of a node that is here is not away.
    """
    away = [node for node in fleet.nodes.values() if node.state == NodeState.UNREACHABLE]
    here = _told_here(fleet) if any(node.shards for node in away) else {}
    return {node.id: node.connection for node in away if not _is_former_name(node, here)}


def _told_here(fleet: Fleet) -> dict[tuple[str, Generation], int]:
    """Say of every process that a connected node tells of the number of the latest such connection."""
    told: dict[tuple[str, Generation], int] = {}
    for node in fleet.nodes.values():
        if node.gone_now is None:
            for shard in node.shards.values():
                process = (shard.shard, shard.generation)
                told[process] = max(node.connection, told.get(process, node.connection))
    return told


def _is_former_name(node: Node, here: Mapping[tuple[str, Generation], int]) -> bool:
    """Tell whether all that a node ran is told of by nodes that connected after it: it has been renamed."""
    processes = [(shard.shard, shard.generation) for shard in node.shards.values()]
    return bool(processes) and all(here.get(process, -1) > node.connection for process in processes)


def _forgiven(node: Node, now: float, *, heard_now: float | None = None) -> Node:
    return replace(
        node,
        heard_now=node.heard_now if heard_now is None else heard_now,
        gone_now=now if node.state == NodeState.UNREACHABLE else node.gone_now,
    )


def _level(
    said: Introduction, known: Node | None, on_the_way: Mapping[str, Generation]
) -> dict[str, ShardState]:
    shards = {shard.shard: shard for shard in said.shards}
    for name, state in known.shards.items() if known else ():
        named = shards.get(name)
        if on_the_way.get(name) == state.generation and (
            named is None or named.generation < state.generation
        ):
            shards[name] = state
    return shards


def _told_once(fleet: Fleet) -> Fleet:
    """Forget of every lost node what another node tells of in the same generation."""
    for node in fleet.nodes.values():
        if node.state != NodeState.LOST:
            continue
        for shard in node.shards.values():
            if any(
                _tells_of(other, shard) for other in fleet.nodes.values() if other.state != NodeState.LOST
            ):
                fleet = _with(fleet, _without(fleet.nodes[node.id], shard.shard))
    return fleet


def _tells_of(node: Node, shard: ShardState) -> bool:
    known = node.shards.get(shard.shard)
    return known is not None and known.generation == shard.generation


def _without(node: Node, shard: str) -> Node:
    shards = {name: state for name, state in node.shards.items() if name != shard}
    stopping = {name: told for name, told in node.stopping.items() if name != shard}
    return replace(node, shards=shards, stopping=stopping)


def _gone(node: Node, now: float, at: datetime) -> Node:
    if node.state in (NodeState.UNREACHABLE, NodeState.LOST):
        return node
    return replace(node, state=NodeState.UNREACHABLE, since=at, gone_now=now)


def _current(fleet: Fleet, node_id: str, connection: int) -> Node | None:
    node = fleet.nodes.get(node_id)
    return node if node is not None and node.connection == connection else None


def _with(fleet: Fleet, node: Node) -> Fleet:
    return replace(fleet, nodes=ById.of(fleet.nodes) | {node.id: node})


def _reachable(before: Phase, after: Phase) -> bool:
    """Tell whether `after` can come some steps behind `before`: a transition in between may have been lost."""
    seen, todo = {before}, [before]
    while todo:
        phase = todo.pop()
        for following in Phase:
            if following not in seen and may_follow(phase, following):
                seen.add(following)
                todo.append(following)
    return after in seen - {before}


def _counted(fleet: Fleet, shard: ShardState, now: float) -> Fleet:
    attempts = fleet.attempts.get(shard.replica, Attempts())
    if shard.phase == Phase.FAILED:
        attempts = after_failure(attempts, now, shard.generation)
    elif shard.phase == Phase.READY and shard.rank == 0:
        # The other ranks are said to be ready when they merely run; rank 0 answers when all of them work.
        attempts = after_ready(attempts, now)
    else:
        return fleet
    return replace(fleet, attempts=fleet.attempts | {shard.replica: attempts})
