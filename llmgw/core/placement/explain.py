"""Say where a model stands: its replicas, what is missing and why, for people and for the 503 of a request."""

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from llmgw.core.fleet.catalog import Model
from llmgw.core.fleet.restarts import Attempts, retry_at
from llmgw.core.fleet.serving import serving_shards
from llmgw.core.fleet.shards import Phase, ShardState
from llmgw.core.fleet.snapshot import Fleet, Node, NodeState, is_leaving
from llmgw.core.placement.answers import (
    NextReplica,
    NodeAnswer,
    ProfileNeeds,
    answers,
    needs_of,
    next_replica,
)
from llmgw.core.placement.need import Need
from llmgw.core.placement.place import Refused, demands_of, place
from llmgw.core.placement.rooms import rooms_of
from llmgw.core.units import show_seconds, show_since

_SHOWN = 5
"""A 503 names this many replicas; `ctl explain` names all."""


class ReplicaLine(msgspec.Struct, frozen=True, kw_only=True):
    """One replica of the model in words."""

    replica: str
    node: str
    phase: Phase
    text: str


class Copy(msgspec.Struct, frozen=True):
    """One observed replica and the node it is on."""

    node: Node
    shard: ShardState


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """Where a model stands.

    Attributes:
        why_not: one sentence on what keeps it from being served; None when a replica is ready.
        needs: what each profile asks of a node, and where that was learned.
        next: where one more replica would go if it had to be placed now; None when it fits nowhere.
        nodes: every node's answer to every profile if one more replica had to be placed now.
    """

    model: str
    wanted: int
    ready: int
    why_not: str | None
    replicas: tuple[ReplicaLine, ...] = ()
    needs: tuple[ProfileNeeds, ...] = ()
    next: NextReplica | None = None
    nodes: tuple[NodeAnswer, ...] = ()


Copies = Mapping[str, Sequence[Copy]]
"""Every observed replica of every model, by the model's name."""


def explain(
    model: Model,
    fleet: Fleet,
    *,
    now: float,
    at: datetime,
    hold: str | None = None,
    needs: Mapping[str, Need] | None = None,
) -> Explanation:
    """Say where `model` stands.

    Args:
        hold: why nothing is placed at all for now (the server has just started, say), or None.
        needs: what is known of the needs of profiles beyond the catalog, by their fingerprint.
    """
    copies, rooms = copies_of(fleet), rooms_of(fleet)
    demands = demands_of(model, needs)
    choice = place(model, rooms, needs)
    refused = {model.name: choice} if isinstance(choice, Refused) else {}
    ready = len(serving_shards(fleet).get(model.name, ()))
    why_not = None
    if not ready:
        why_not = why_not_served(model, fleet, refused, now=now, at=at, hold=hold, copies=copies)
    return Explanation(
        model=model.name,
        wanted=model.replicas,
        ready=ready,
        why_not=why_not,
        replicas=_lines(copies.get(model.name, ()), fleet, now, at),
        needs=tuple(needs_of(profile, demand) for profile, demand in demands),
        next=None if isinstance(choice, Refused) else next_replica(choice),
        nodes=tuple(answer for profile, demand in demands for answer in answers(profile, demand, rooms)),
    )


def why_not_served(
    model: Model,
    fleet: Fleet,
    refused: Mapping[str, Refused],
    *,
    now: float,
    at: datetime,
    hold: str | None = None,
    copies: Copies | None = None,
) -> str:
    """Say in one sentence what keeps a model without a ready replica from being served.

    Args:
        refused: models of which a replica fits nowhere, as the last plan found.
        hold: as in `explain`.
        copies: what `copies_of` says of `fleet`, for who asks about many models; worked out here when None.
    """
    if model.replicas == 0:
        return f"model {model.name!r} has 0 replicas in the catalog; raise replicas to serve it"
    copies = copies_of(fleet) if copies is None else copies
    lines = _lines(copies.get(model.name, ()), fleet, now, at)
    if lines:
        return _few([f"replica {line.replica} on {line.node} is {line.text}" for line in lines])
    if hold is not None:
        return hold
    if model.name in refused:
        return refused[model.name].summary()
    return f"model {model.name!r} is about to be placed"


def copies_of(fleet: Fleet) -> Copies:
    """List every observed replica, by its model."""
    copies: dict[str, list[Copy]] = {}
    for node in fleet.nodes.values():
        for shard in node.shards.values():
            copies.setdefault(shard.model, []).append(Copy(node, shard))
    return copies


def replica_lines(model: str, fleet: Fleet, *, now: float, at: datetime) -> tuple[ReplicaLine, ...]:
    """Say in words how each replica of a model stands."""
    return _lines(copies_of(fleet).get(model, ()), fleet, now, at)


def _lines(copies: Sequence[Copy], fleet: Fleet, now: float, at: datetime) -> tuple[ReplicaLine, ...]:
    lines = [
        ReplicaLine(
            replica=copy.shard.replica,
            node=copy.node.id,
            phase=copy.shard.phase,
            text=_shard_text(copy.node, copy.shard, fleet, now, at),
        )
        for copy in copies
    ]
    return tuple(sorted(lines, key=lambda line: (line.replica, line.node)))


def _shard_text(node: Node, shard: ShardState, fleet: Fleet, now: float, at: datetime) -> str:
    text = str(shard.phase)
    if shard.since_s is not None:
        text += f" for {show_seconds(at.timestamp() - shard.since_s)}"
    if shard.progress is not None:
        text += f", {shard.progress}"
    if shard.reason:
        text += f": {shard.reason}"
    if shard.phase == Phase.FAILED:
        text += _failure_text(fleet.attempts.get(shard.replica, Attempts()), now)
    if is_leaving(node, shard):
        text += " (it was told to stop)"
    elif node.intent == NodeState.DRAINING and shard.phase == Phase.READY:
        text += " (its node is drained: it serves until another is ready)"
    if node.state in (NodeState.UNREACHABLE, NodeState.LOST):
        text += f" (so it was before the node fell silent: {node.state} for {show_since(node.since, at)})"
    return text


def _failure_text(attempts: Attempts, now: float) -> str:
    wait = retry_at(attempts) - now
    again = f"in {show_seconds(max(1, wait))}" if wait > 0 else "when it fits somewhere"
    return f" (failure {attempts.count}, tried again {again})"


def _few(texts: list[str]) -> str:
    """Join what a person can read at once, and say how much more there is."""
    more = f"; and {len(texts) - _SHOWN} more replicas" if len(texts) > _SHOWN else ""
    return "; ".join(texts[:_SHOWN]) + more
