"""What happened to nodes, in words: the difference between two observations of one node, and of silence."""

from collections.abc import Iterator
from datetime import datetime
from enum import StrEnum

import msgspec

from llmgw.core.fleet.hardware import EngineInstall, Fabric, Gpu
from llmgw.core.fleet.shards import LIVE, Phase, ShardState
from llmgw.core.fleet.silence import Alarm
from llmgw.core.fleet.snapshot import Node, NodeState, Rival, is_leaving
from llmgw.core.fleet.warnings import gpu_name
from llmgw.core.units import show_bytes, show_since


class Kind(StrEnum):
    """What an event is about."""

    REGISTERED = "registered"
    RECONNECTED = "reconnected"
    STATE = "state"
    MEMORY = "memory"
    GPU = "gpu"
    DRIVER = "driver"
    FABRIC = "fabric"
    CANDIDATE = "candidate"
    ENGINE = "engine"
    REPLICA = "replica"
    ALARM = "alarm"
    RIVAL = "rival"


class NodeEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened to a node."""

    at: datetime
    node: str
    kind: str
    text: str


def node_events(before: Node | None, after: Node, at: datetime) -> tuple[NodeEvent, ...]:
    """Say what is different in a node since it was last looked at."""
    # Most observations are signs of life, of which nothing is told.
    said: list[tuple[Kind, str]] = []
    if before is None:
        said.append((Kind.REGISTERED, _registered(after)))
    else:
        said += _connection(before, after)
        said += _state(before, after, at)
        said += _memory(before, after)
        said += _driver(before, after)
        if before.machine.gpus is not after.machine.gpus:
            said += _gpus(before.machine.gpus, after.machine.gpus)
        if before.machine.fabrics is not after.machine.fabrics:
            said += _fabrics(before.machine.fabrics, after.machine.fabrics)
        if after.rival is not None and before.rival is None:
            said.append((Kind.RIVAL, rival_text(after.rival)))
        if before.engines is not after.engines:
            said += _engines(before.engines, after.engines)
        if before.shards is not after.shards:
            said += _shards(before, after)
    return tuple(NodeEvent(at=at, node=after.id, kind=kind, text=text) for kind, text in said)


def rival_text(rival: Rival) -> str:
    """Say that there are two of one name, and what to do."""
    return (
        f"another agent, at {rival.where}, calls itself by the same name and is refused; give one of the two another "
        "`node` in its agent.yaml"
    )


def alarm_events(before: Alarm | None, after: Alarm | None, at: datetime) -> tuple[NodeEvent, ...]:
    """Say for which nodes the alarm was raised, and for which it ended."""
    had, have = (set(alarm.nodes) if alarm else set() for alarm in (before, after))
    said = []
    if after is not None:
        text = f"{len(after.nodes)} of {after.fleet} nodes are silent, this one too; nothing of it is placed elsewhere"
        said += [(node, text) for node in sorted(have - had)]
    if before is not None and after is None:
        said += [(node, "the alarm of silence is over") for node in sorted(had)]
    return tuple(NodeEvent(at=at, node=node, kind=Kind.ALARM, text=text) for node, text in said)


def _registered(node: Node) -> str:
    running = [_named(s) for s in node.shards.values() if s.phase in LIVE]
    runs = f", runs {', '.join(sorted(running))}" if running else ""
    return f"registered from {node.address} (version {node.version or 'unknown'}){runs}"


def _connection(before: Node, after: Node) -> Iterator[tuple[Kind, str]]:
    if before.connection != after.connection:
        moved = (
            f"; its address is {after.address}, was {before.address}"
            if before.address != after.address
            else ""
        )
        other = (
            f"; its version is {after.version}, was {before.version}"
            if before.version != after.version
            else ""
        )
        yield Kind.RECONNECTED, f"connected again{moved}{other}"


def _state(before: Node, after: Node, at: datetime) -> Iterator[tuple[Kind, str]]:
    if before.state == after.state:
        return
    again = " again" if after.state == NodeState.READY else ""
    yield Kind.STATE, f"{after.state}{again}, was {before.state} for {show_since(before.since, at)}"


def _memory(before: Node, after: Node) -> Iterator[tuple[Kind, str]]:
    had, has = before.machine.memory.total_bytes, after.machine.memory.total_bytes
    if had != has and had is not None and has is not None:
        yield Kind.MEMORY, f"memory is {show_bytes(has)}, was {show_bytes(had)}"


def _driver(before: Node, after: Node) -> Iterator[tuple[Kind, str]]:
    had, has = before.machine, after.machine
    if had.driver is not None and has.driver is not None and had.driver != has.driver:
        yield Kind.DRIVER, f"its GPU driver is {has.driver}, was {had.driver}"
    if had.gpu_problem != has.gpu_problem:
        if has.gpu_problem is not None:
            yield Kind.DRIVER, f"its GPUs cannot be told: {has.gpu_problem}"
        elif has.gpus is not None:
            yield Kind.DRIVER, "its GPUs can be told again"


def _gpus(before: tuple[Gpu, ...] | None, after: tuple[Gpu, ...] | None) -> Iterator[tuple[Kind, str]]:
    if before is None or after is None:
        return
    had, have = ({gpu.uuid: gpu for gpu in gpus} for gpus in (before, after))
    # Every heartbeat comes this way, and nearly all of them say what the one before said.
    for uuid in sorted(had.keys() | have.keys()):
        old, new = had.get(uuid), have.get(uuid)
        if old is None and new is not None:
            yield Kind.GPU, f"{gpu_name(new)} appeared{_but(new.problem)}"
        elif old is not None and new is None:
            yield Kind.GPU, f"{gpu_name(old)} is gone: its driver does not name it any more"
        elif old is not None and new is not None:
            yield from _gpu(old, new)


def _gpu(old: Gpu, new: Gpu) -> Iterator[tuple[Kind, str]]:
    if old.problem != new.problem:
        if new.problem is None:
            yield Kind.GPU, f"{gpu_name(new)} can be used again"
        else:
            yield Kind.GPU, f"{gpu_name(new)} cannot be used: {new.problem}"
    if (new.ecc_errors or 0) > (old.ecc_errors or 0):
        yield (
            Kind.GPU,
            f"{gpu_name(new)} has {new.ecc_errors} uncorrected memory errors, had {old.ecc_errors or 0}",
        )


def _but(problem: str | None) -> str:
    return f", and cannot be used: {problem}" if problem is not None else ""


def _fabrics(
    before: tuple[Fabric, ...] | None, after: tuple[Fabric, ...] | None
) -> Iterator[tuple[Kind, str]]:
    if before is None or after is None:
        return
    had, have = ({(f.name, f.adapter): f for f in fabrics} for fabrics in (before, after))
    for key in sorted(had.keys() | have.keys()):
        old, new = had.get(key), have.get(key)
        name = f"fabric {key[0]} through {key[1]}"
        was, now = (one is not None and one.attached for one in (old, new))
        if now and not was:
            yield Kind.FABRIC, f"it is attached to {name}{f' ({new.rate})' if new and new.rate else ''}"
        elif was and not now:
            why = new.problem if new is not None else "its agent.yaml does not name it any more"
            yield Kind.FABRIC, f"it is not attached to {name} any more: {why or 'no link'}"
        elif new is not None and not now and (old is None or old.problem != new.problem):
            yield Kind.FABRIC, f"it is not attached to {name}: {new.problem or 'no link'}"


def _engines(
    before: tuple[EngineInstall, ...] | None, after: tuple[EngineInstall, ...] | None
) -> Iterator[tuple[Kind, str]]:
    if before is None or after is None:
        return
    had, have = ({(e.engine, e.path): e for e in engines} for engines in (before, after))
    for key in sorted(had.keys() | have.keys()):
        old, new = had.get(key), have.get(key)
        if old == new:
            continue
        name = f"engine {key[0]} at {key[1]}"
        if new is None:
            yield Kind.ENGINE, f"{name} is gone"
        elif new.problem is not None:
            yield Kind.ENGINE, f"{name} cannot be used: {new.problem}"
        else:
            was = "appeared" if old is None else "can be used again" if old.problem else "changed"
            yield Kind.ENGINE, f"{name} {was}, version {new.version or 'unknown'}"


def _shards(before: Node, after: Node) -> Iterator[tuple[Kind, str]]:
    for name in sorted(before.shards.keys() | after.shards.keys()):
        old, new = before.shards.get(name), after.shards.get(name)
        if new is None:
            if old is not None and old.phase in LIVE:
                yield Kind.REPLICA, f"{_named(old)} {_gone(before, old)}"
        elif old is None or (old.generation, old.phase) != (new.generation, new.phase):
            if new.phase == Phase.READY:
                yield Kind.REPLICA, f"{_named(new)} is ready"
            elif new.phase == Phase.FAILED:
                yield Kind.REPLICA, f"{_named(new)} failed: {new.reason or 'no reason given'}"


def _gone(node: Node, shard: ShardState) -> str:
    return "stopped" if is_leaving(node, shard) else f"ended unasked by the server, it was {shard.phase}"


def _named(shard: ShardState) -> str:
    return f"{shard.replica} ({shard.generation})"
