"""Say where a model stands: its replicas, what is missing and why, for people and for the 503 of a request."""

from datetime import datetime

import msgspec

from llmgw.core.fleet.catalog import Model
from llmgw.core.fleet.restarts import retry_at
from llmgw.core.fleet.shards import Phase, ShardState
from llmgw.core.fleet.snapshot import Fleet
from llmgw.core.placement.demand import demand_of
from llmgw.core.placement.filters import Verdict
from llmgw.core.placement.place import judge
from llmgw.core.placement.room import rooms_of
from llmgw.core.units import show_seconds


class NodeAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What one node answers to one profile: a verdict, or that it fits."""

    node: str
    profile: str
    fits: bool
    verdict: Verdict | None = None


class ReplicaLine(msgspec.Struct, frozen=True, kw_only=True):
    """One replica of the model in words."""

    replica: str
    node: str
    phase: Phase
    text: str


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """Where a model stands.

    Attributes:
        why_not: one sentence on what keeps it from being served; None when a replica is ready.
        nodes: every node's answer to every profile if one more replica had to be placed now.
    """

    model: str
    wanted: int
    ready: int
    why_not: str | None
    replicas: tuple[ReplicaLine, ...] = ()
    nodes: tuple[NodeAnswer, ...] = ()


def explain(model: Model, fleet: Fleet, *, now: float, at: datetime, hold: str | None = None) -> Explanation:
    """Say where `model` stands.

    Args:
        hold: why nothing is placed at all for now (the server has just started, say), or None.
    """
    lines = replica_lines(model.name, fleet, now=now, at=at)
    ready = sum(line.phase == Phase.READY for line in lines)
    answers = _answers(model, fleet)
    why_not = None if ready else _why_not(model, lines, answers, hold)
    return Explanation(
        model=model.name, wanted=model.replicas, ready=ready, why_not=why_not, replicas=lines, nodes=answers
    )


def replica_lines(model: str, fleet: Fleet, *, now: float, at: datetime) -> tuple[ReplicaLine, ...]:
    """Say in words how each replica of a model stands."""
    lines = []
    for node in fleet.nodes.values():
        for shard in node.shards.values():
            if shard.model == model:
                text = _shard_text(shard, fleet, now, at)
                lines.append(ReplicaLine(replica=shard.replica, node=node.id, phase=shard.phase, text=text))
    return tuple(sorted(lines, key=lambda line: (line.replica, line.node)))


def _shard_text(shard: ShardState, fleet: Fleet, now: float, at: datetime) -> str:
    text = str(shard.phase)
    if shard.since_s is not None:
        text += f" for {show_seconds(at.timestamp() - shard.since_s)}"
    if shard.reason:
        text += f": {shard.reason}"
    attempts = fleet.attempts.get(shard.replica)
    if shard.phase == Phase.FAILED and attempts is not None:
        wait = retry_at(attempts) - now
        again = f"in {show_seconds(wait)}" if wait > 0 else "when it fits somewhere"
        text += f" (failure {attempts.count}, tried again {again})"
    return text


def _answers(model: Model, fleet: Fleet) -> tuple[NodeAnswer, ...]:
    answers = []
    rooms = rooms_of(fleet)
    for profile in model.profiles:
        demand = demand_of(profile)
        for node_id in sorted(rooms):
            verdict = judge(demand, rooms[node_id])
            if verdict is not None:
                verdict = msgspec.structs.replace(verdict, profile=profile.name)
            answers.append(
                NodeAnswer(node=node_id, profile=profile.name, fits=verdict is None, verdict=verdict)
            )
    return tuple(answers)


def _why_not(
    model: Model, lines: tuple[ReplicaLine, ...], answers: tuple[NodeAnswer, ...], hold: str | None
) -> str:
    if model.replicas == 0:
        return f"model {model.name!r} has 0 replicas in the catalog; raise replicas to serve it"
    if lines:
        return "; ".join(f"replica {line.replica} on {line.node} is {line.text}" for line in lines)
    if hold is not None:
        return hold
    if not answers:
        return f"no node is registered that could run {model.name!r}; start 'llmgw agent' on one"
    if any(answer.fits for answer in answers):
        return f"model {model.name!r} is about to be placed"
    said = "; ".join(str(answer.verdict) for answer in answers)
    return f"model {model.name!r} fits on no node: {said}"
