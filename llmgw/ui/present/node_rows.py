"""Nodes as rows of a table: what can be seen of each at a glance."""

from collections import Counter
from datetime import datetime

import msgspec

from llmgw.core.fleet.snapshot import Fleet, Node, NodeState
from llmgw.ui.present.amounts import Amount, amount
from llmgw.ui.present.gpus import GpuStrip, gpu_strip
from llmgw.ui.present.nodes import node_warnings, own_disk

PRESENT_S = 15.0
"""A node that was heard this lately is there now; its row need not change with every sign of life."""


class Tag(msgspec.Struct, frozen=True, kw_only=True):
    """A short word with what is wrong with it, if anything is."""

    text: str
    problem: str | None = None


class Runs(msgspec.Struct, frozen=True, kw_only=True):
    """How many engine processes of a model a node looks after."""

    model: str
    count: int
    failed: bool


class NodeRow(msgspec.Struct, frozen=True, kw_only=True):
    """One node at a glance.

    Attributes:
        seen: its last sign of life; None while that is now.
        gpus: None when nobody said.
        disk: of its own filesystems.
        engines: None when nobody said.
        fabrics: None when nobody said.
    """

    id: str
    state: str
    since: datetime
    seen: datetime | None
    pool: str
    labels: tuple[str, ...]
    gpus: GpuStrip | None
    memory: Amount
    disk: Amount
    engines: tuple[Tag, ...] | None
    fabrics: tuple[Tag, ...] | None
    runs: tuple[Runs, ...]
    warnings: tuple[str, ...]


def node_rows(fleet: Fleet, *, now: float) -> tuple[NodeRow, ...]:
    """Show every node, in the order of ids."""
    return tuple(node_row(fleet.nodes[node_id], now=now) for node_id in sorted(fleet.nodes))


def node_row(node: Node, *, now: float) -> NodeRow:
    """Show one node at a glance."""
    machine = node.machine
    away = node.state in (NodeState.UNREACHABLE, NodeState.LOST) or now - node.heard_now > PRESENT_S
    return NodeRow(
        id=node.id,
        state=str(node.state),
        since=node.since,
        seen=node.seen_at if away else None,
        pool=node.pool,
        labels=tuple(f"{key}={value}" for key, value in sorted(node.labels.items())),
        gpus=gpu_strip(node),
        memory=amount(machine.memory.available_bytes, machine.memory.total_bytes),
        disk=amount(
            own_disk(machine.filesystems, "free_bytes"), own_disk(machine.filesystems, "total_bytes")
        ),
        engines=engine_tags(node),
        fabrics=fabric_tags(node),
        runs=_runs(node),
        warnings=node_warnings(node),
    )


def engine_tags(node: Node) -> tuple[Tag, ...] | None:
    """Name the engines of a node."""
    if node.engines is None:
        return None
    return tuple(
        Tag(text=f"{one.engine} {one.version or ''}".rstrip(), problem=one.problem) for one in node.engines
    )


def fabric_tags(node: Node) -> tuple[Tag, ...] | None:
    """Name the fast networks of a node; one that it is not attached to has a problem."""
    fabrics = node.machine.fabrics
    if fabrics is None:
        return None
    return tuple(
        Tag(text=one.name, problem=None if one.attached else one.problem or f"{one.adapter} is not attached")
        for one in fabrics
    )


def _runs(node: Node) -> tuple[Runs, ...]:
    counts = Counter(shard.model for shard in node.shards.values())
    failed = {shard.model for shard in node.shards.values() if shard.phase == "failed"}
    return tuple(
        Runs(model=model, count=count, failed=model in failed) for model, count in sorted(counts.items())
    )
