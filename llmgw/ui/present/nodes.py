"""Nodes as an operator sees them."""

from collections.abc import Callable, Sequence
from datetime import datetime

import msgspec

from llmgw.core.fleet.events import NodeEvent, rival_text
from llmgw.core.fleet.hardware import EngineInstall, Fabric, Filesystem, Processor
from llmgw.core.fleet.snapshot import Fleet, Node, NodeState
from llmgw.core.fleet.warnings import machine_warnings
from llmgw.core.fleet.weights import Holding
from llmgw.ui.present.ages import age_s
from llmgw.ui.present.node_gpus import GpuSums, NodeGpu, gpu_sums, node_gpus

LISTED_EVENTS = 10
"""Events of each node in a list of nodes; one node shows all that are kept."""


class EventView(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened to a node.

    Attributes:
        kind: "registered", "reconnected", "state", "memory", "gpu", "driver", "fabric", "candidate", "engine",
            "replica", "alarm" or "rival".
    """

    at: datetime
    kind: str
    text: str


class NodeView(msgspec.Struct, frozen=True, kw_only=True):
    """One node as an operator sees it.

    Attributes:
        since: when its state last changed; `since_s` is how long ago that was, seconds.
        last_seen_s: seconds since its last sign of life.
        version: of its agent.
        disk_total_bytes: of its own filesystems; network filesystems count for no node.
        gpu_driver: version of the driver of its GPUs, and `cuda` the CUDA version that this serves.
        gpus: None when the node does not say, empty when it has none; `gpu_sums` is all of them together.
        fabrics: fast networks that it is said to be on; None when the node does not say.
        weights: what it holds; None when the node does not say.
        engines: None when the node does not say, empty when it has none.
        replicas: ids of what it runs or looks after.
        warnings: what makes it slow or useless though it is connected.
        wanted: what an operator wants of it: ready, draining or cordoned.
        events: what happened to it, oldest first; the last few in a list of nodes.
    """

    id: str
    state: NodeState
    since: datetime
    since_s: float
    last_seen_s: float
    address: str
    version: str | None
    pool: str
    labels: dict[str, str]
    os: str | None
    kernel: str | None
    cpu: Processor
    memory_total_bytes: int | None
    memory_available_bytes: int | None
    disk_total_bytes: int | None
    disk_free_bytes: int | None
    filesystems: tuple[Filesystem, ...] | None
    gpu_driver: str | None
    cuda: str | None
    gpus: tuple[NodeGpu, ...] | None
    gpu_sums: GpuSums | None
    fabrics: tuple[Fabric, ...] | None
    weights: tuple[Holding, ...] | None
    engines: tuple[EngineInstall, ...] | None
    replicas: tuple[str, ...]
    warnings: tuple[str, ...]
    wanted: NodeState
    events: tuple[EventView, ...]


def node_views(
    fleet: Fleet, events: Callable[[str], Sequence[NodeEvent]], *, now: float, at: datetime
) -> tuple[NodeView, ...]:
    """Show every node, in the order of ids.

    Args:
        events: gives the events of a node, oldest first.
    """
    return tuple(
        node_view(fleet.nodes[node_id], events(node_id)[-LISTED_EVENTS:], now=now, at=at)
        for node_id in sorted(fleet.nodes)
    )


def node_view(node: Node, events: Sequence[NodeEvent], *, now: float, at: datetime) -> NodeView:
    """Show one node with these events."""
    machine, gpus = node.machine, node_gpus(node)
    return NodeView(
        id=node.id,
        state=node.state,
        since=node.since,
        since_s=age_s(node.since, at),
        last_seen_s=round(max(0.0, now - node.heard_now), 1),
        address=node.address,
        version=node.version,
        pool=node.pool,
        labels=node.labels,
        os=machine.os,
        kernel=machine.kernel,
        cpu=machine.processor,
        memory_total_bytes=machine.memory.total_bytes,
        memory_available_bytes=machine.memory.available_bytes,
        disk_total_bytes=own_disk(machine.filesystems, "total_bytes"),
        disk_free_bytes=own_disk(machine.filesystems, "free_bytes"),
        filesystems=machine.filesystems,
        gpu_driver=machine.driver,
        cuda=machine.cuda,
        gpus=gpus,
        gpu_sums=gpu_sums(gpus),
        fabrics=machine.fabrics,
        weights=node.weights,
        engines=node.engines,
        replicas=tuple(sorted({shard.replica for shard in node.shards.values()})),
        warnings=node_warnings(node),
        wanted=node.intent,
        events=tuple(EventView(at=event.at, kind=event.kind, text=event.text) for event in events),
    )


def node_warnings(node: Node) -> tuple[str, ...]:
    """Say what makes a node slow or useless though it is connected."""
    rival = () if node.rival is None else (rival_text(node.rival),)
    return (*machine_warnings(node.machine, node.engines), *rival)


def own_disk(filesystems: tuple[Filesystem, ...] | None, quantity: str) -> int | None:
    """Add up one quantity of a node's own filesystems; None when nobody said it."""
    found = [getattr(f, quantity) for f in filesystems or () if not f.shared]
    known = [bytes_ for bytes_ in found if bytes_ is not None]
    return sum(known) if known else None
