"""One node with all that is known of it."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from llmgw.core.fleet.catalog import Catalog
from llmgw.core.fleet.collect import stocks
from llmgw.core.fleet.events import NodeEvent
from llmgw.core.fleet.hardware import Fabric, Filesystem
from llmgw.core.fleet.orders import Orders
from llmgw.core.fleet.snapshot import Fleet, Node, NodeState
from llmgw.ui.present.amounts import Amount, amount
from llmgw.ui.present.gpus import GpuView, gpu_views
from llmgw.ui.present.node_rows import NodeRow, node_row
from llmgw.ui.present.nodes import EventView
from llmgw.ui.present.replica_rows import ReplicaRow, replica_rows
from llmgw.ui.present.weight_rows import WeightRow, weight_rows


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """Something a node said of itself, or "-"."""

    name: str
    value: str


class Engine(msgspec.Struct, frozen=True, kw_only=True):
    """An engine on the node."""

    name: str
    version: str
    form: str
    path: str
    problem: str | None


class Mount(msgspec.Struct, frozen=True, kw_only=True):
    """A filesystem that a folder of ours lies on."""

    mount: str
    device: str
    kind: str
    shared: bool
    holds: str
    room: Amount


class Network(msgspec.Struct, frozen=True, kw_only=True):
    """A fabric that the node is said to be on."""

    name: str
    adapter: str
    rate: str
    attached: bool
    problem: str | None


class GpuTable(msgspec.Struct, frozen=True, kw_only=True):
    """The GPUs of a node.

    Attributes:
        gpus: None when nobody said.
        problem: why they cannot be told though there seem to be some.
    """

    gpus: tuple[GpuView, ...] | None
    problem: str | None


class NodeHead(msgspec.Struct, frozen=True, kw_only=True):
    """What a node is now, and what can be wanted of it.

    Attributes:
        intent: what is wanted of it now: "ready", "cordoned" or "draining".
        away: it is unreachable or lost, and can be forgotten.
    """

    row: NodeRow
    intent: str
    away: bool


class NodePage(msgspec.Struct, frozen=True, kw_only=True):
    """All that the page of a node shows; None is what nobody said."""

    head: NodeHead
    facts: tuple[Fact, ...]
    gpus: GpuTable
    mounts: tuple[Mount, ...] | None
    engines: tuple[Engine, ...] | None
    networks: tuple[Network, ...] | None
    replicas: tuple[ReplicaRow, ...]
    weights: tuple[WeightRow, ...] | None
    events: tuple[EventView, ...]


def node_page(
    node: Node,
    catalog: Catalog,
    fleet: Fleet,
    events: Sequence[NodeEvent],
    *,
    orders: Orders,
    now: float,
    at: datetime,
) -> NodePage:
    """Show one node with these events, the latest first."""
    machine = node.machine
    own = Fleet(nodes={node.id: node}, attempts=fleet.attempts)
    return NodePage(
        head=NodeHead(
            row=node_row(node, now=now),
            intent=str(node.intent),
            away=node.state in (NodeState.UNREACHABLE, NodeState.LOST),
        ),
        facts=_facts(node),
        gpus=GpuTable(gpus=gpu_views(node), problem=machine.gpu_problem),
        mounts=None if machine.filesystems is None else tuple(_mount(one) for one in machine.filesystems),
        engines=_engines(node),
        networks=None if machine.fabrics is None else tuple(_network(one) for one in machine.fabrics),
        replicas=replica_rows(catalog, own, now=now, at=at, orders=orders),
        weights=None if node.weights is None else weight_rows(stocks(catalog, own)),
        events=tuple(EventView(at=event.at, kind=event.kind, text=event.text) for event in reversed(events)),
    )


def _facts(node: Node) -> tuple[Fact, ...]:
    machine, processor = node.machine, node.machine.processor
    cores = None if processor.cores is None else f"{processor.cores} cores"
    named = [
        ("Address", node.address),
        ("Hostname", machine.hostname),
        ("Agent", node.version),
        ("Pool", node.pool),
        ("Labels", " ".join(f"{key}={value}" for key, value in sorted(node.labels.items()))),
        ("System", machine.os),
        ("Kernel", machine.kernel),
        ("Processor", ", ".join(word for word in (processor.model, cores) if word)),
        ("Architecture", processor.architecture),
        (
            "Vectors",
            None if processor.vector is None else " ".join(processor.vector) or "none of those that count",
        ),
        ("GPU driver", machine.driver),
        ("CUDA", machine.cuda),
    ]
    return tuple(Fact(name=name, value=value or "-") for name, value in named)


def _engines(node: Node) -> tuple[Engine, ...] | None:
    if node.engines is None:
        return None
    return tuple(
        Engine(name=one.engine, version=one.version or "-", form=one.form, path=one.path, problem=one.problem)
        for one in node.engines
    )


def _mount(one: Filesystem) -> Mount:
    return Mount(
        mount=one.mount,
        device=one.device or "-",
        kind=one.kind or "-",
        shared=one.shared,
        holds=", ".join(one.holds) or "-",
        room=amount(one.free_bytes, one.total_bytes),
    )


def _network(one: Fabric) -> Network:
    return Network(
        name=one.name,
        adapter=one.adapter,
        rate=one.rate or "-",
        attached=one.attached,
        problem=one.problem,
    )
