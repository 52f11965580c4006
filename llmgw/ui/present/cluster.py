"""The whole fleet on one page."""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from llmgw.core.fleet.catalog import Catalog
from llmgw.core.fleet.orders import Orders
from llmgw.core.fleet.snapshot import Fleet
from llmgw.core.units import show_bytes
from llmgw.ui.present.fabrics import FabricCard, fabric_cards
from llmgw.ui.present.model_rows import ModelRow, model_rows
from llmgw.ui.present.models import ModelView
from llmgw.ui.present.node_rows import NodeRow, node_rows
from llmgw.ui.present.replica_rows import ReplicaRow, failed_first, replica_rows
from llmgw.ui.present.status import StatusView

SHOWN_PROBLEMS = 5


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One number that says how it goes.

    Attributes:
        value: e.g. "11"; `of` is what it would be at best, e.g. "12", or None.
        state: "good", "poor" or "plain".
        anchor: where on the page the whole of it is.
    """

    name: str
    value: str
    of: str | None = None
    state: str = "plain"
    anchor: str


class Notices(msgspec.Struct, frozen=True, kw_only=True):
    """What an operator must know first.

    Attributes:
        alarm: most of the fleet is silent; None when it is not.
        hold: why nothing is placed for now; None when placement goes on.
        problems: the first few; `more` are the others.
    """

    alarm: str | None
    hold: str | None
    problems: tuple[str, ...]
    more: tuple[str, ...]


class ClusterView(msgspec.Struct, frozen=True, kw_only=True):
    """All that the cluster page shows."""

    notices: Notices
    figures: tuple[Figure, ...]
    nodes: tuple[NodeRow, ...]
    models: tuple[ModelRow, ...]
    replicas: tuple[ReplicaRow, ...]
    fabrics: tuple[FabricCard, ...]


def cluster_view(
    catalog: Catalog,
    fleet: Fleet,
    status: StatusView,
    models: Iterable[ModelView],
    *,
    orders: Orders,
    now: float,
    at: datetime,
) -> ClusterView:
    """Show the whole fleet.

    Args:
        status: the whole at a glance, at the same moment.
        models: every model, at the same moment.
    """
    nodes, shown = node_rows(fleet, now=now), model_rows(models, fleet)
    return ClusterView(
        notices=notices(status),
        figures=figures(status, fleet, shown, nodes),
        nodes=nodes,
        models=shown,
        replicas=failed_first(replica_rows(catalog, fleet, now=now, at=at, orders=orders)),
        fabrics=fabric_cards(catalog, fleet),
    )


def notices(status: StatusView) -> Notices:
    """Show what must be known first; the alarm has a place of its own."""
    problems = status.problems[1:] if status.alarm else status.problems
    return Notices(
        alarm=status.alarm.text if status.alarm else None,
        hold=status.hold,
        problems=problems[:SHOWN_PROBLEMS],
        more=problems[SHOWN_PROBLEMS:],
    )


def figures(
    status: StatusView, fleet: Fleet, models: Iterable[ModelRow], nodes: Iterable[NodeRow]
) -> tuple[Figure, ...]:
    """Count what a look at the fleet should tell first."""
    wanted = [model for model in models if model.wanted]
    strips = [row.gpus for row in nodes if row.gpus is not None]
    return (
        _share("nodes ready", status.nodes.get("ready", 0), sum(status.nodes.values()), "nodes"),
        _share("models served", sum(model.ready > 0 for model in wanted), len(wanted), "models"),
        _share("replicas ready", status.ready, status.wanted, "replicas"),
        Figure(
            name="GPUs free",
            value=str(sum(strip.free for strip in strips)) if strips else "-",
            of=str(sum(strip.total for strip in strips)) if strips else None,
            anchor="nodes",
        ),
        _memory(fleet),
    )


def _memory(fleet: Fleet) -> Figure:
    memories = [node.machine.memory for node in fleet.nodes.values()]
    pairs = [
        (memory.available_bytes, memory.total_bytes)
        for memory in memories
        if memory.available_bytes is not None and memory.total_bytes is not None
    ]
    free, whole = sum(pair[0] for pair in pairs), sum(pair[1] for pair in pairs)
    return Figure(
        name="memory free",
        value=show_bytes(free) if pairs else "-",
        of=show_bytes(whole) if pairs else None,
        anchor="nodes",
    )


def _share(name: str, found: int, wanted: int, anchor: str) -> Figure:
    state = "plain" if wanted == 0 else "good" if found >= wanted else "poor"
    return Figure(name=name, value=str(found), of=str(wanted), state=state, anchor=anchor)
