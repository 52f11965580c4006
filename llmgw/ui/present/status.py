"""The whole at a glance."""

from collections.abc import Iterable, Mapping
from datetime import datetime

import msgspec

from llmgw.core.fleet.catalog import Catalog
from llmgw.core.fleet.collect import Stock, fabric_stocks
from llmgw.core.fleet.silence import Alarm, alarm_text
from llmgw.core.fleet.snapshot import Fleet, Node, NodeState
from llmgw.core.units import show_since
from llmgw.ui.present.ages import age_s
from llmgw.ui.present.models import ModelView, model_views
from llmgw.ui.present.nodes import node_warnings

_SILENT = (NodeState.UNREACHABLE, NodeState.LOST)


class AlarmView(msgspec.Struct, frozen=True, kw_only=True):
    """Most of the fleet is silent, and nothing is placed elsewhere.

    Attributes:
        since: when it was raised; `since_s` is how long ago that was, seconds.
        nodes: who is away.
        fleet: how many nodes there were.
    """

    since: datetime
    since_s: float
    nodes: tuple[str, ...]
    fleet: int
    text: str


class FabricWeights(msgspec.Struct, frozen=True, kw_only=True):
    """Whole weights that can be reached on a fabric.

    Attributes:
        name: as a catalog calls them, or their path.
        copies: how often they are there; what is on a shared filer is there once.
    """

    name: str
    size_bytes: int | None
    copies: int


class FabricView(msgspec.Struct, frozen=True, kw_only=True):
    """A fast network.

    Attributes:
        attached: nodes whose adapter is up.
        detached: nodes that are said to be on it and are not attached.
        weights: what its attached nodes hold.
    """

    name: str
    attached: tuple[str, ...]
    detached: tuple[str, ...]
    weights: tuple[FabricWeights, ...] = ()


class StatusView(msgspec.Struct, frozen=True, kw_only=True):
    """Counts, and what needs somebody.

    Attributes:
        epoch: number of this server start.
        up_s: seconds since it started.
        hold: why nothing is placed for now; None when placement goes on.
        alarm: most of the fleet is silent; None when it is not.
        absent: nodes known from before that have not registered since the server started.
        nodes: how many, by state.
        fabrics: fast networks that nodes are said to be on, in the order of their names.
        replicas: how many, by phase.
        models: how many are in the catalog; `served` of them have a replica that may answer.
        problems: one sentence each on what needs somebody.
    """

    version: str
    epoch: int
    started_at: datetime
    up_s: float
    hold: str | None
    alarm: AlarmView | None
    absent: tuple[str, ...]
    nodes: dict[str, int]
    fabrics: tuple[FabricView, ...]
    models: int
    served: int
    wanted: int
    ready: int
    replicas: dict[str, int]
    problems: tuple[str, ...]


def status_view(
    catalog: Catalog,
    fleet: Fleet,
    *,
    version: str,
    epoch: int,
    started_at: datetime,
    hold: str | None,
    catalog_problem: str | None,
    alarm: Alarm | None = None,
    absent: tuple[str, ...] = (),
    strangers: tuple[str, ...] = (),
    models: tuple[ModelView, ...] | None = None,
    now: float,
    at: datetime,
) -> StatusView:
    """Show the whole at a glance.

    Args:
        catalog_problem: why the catalog file named in server.yaml was not applied at start, or None.
        alarm: most of the fleet is silent, or None.
        absent: nodes that are known and have not registered.
        strangers: a sentence on each engine that is left alone.
        models: every model at this moment, for who has looked already; looked at here when None.
    """
    if models is None:
        models = model_views(catalog, fleet, hold=hold, now=now, at=at)
    phases = [shard.phase for node in fleet.nodes.values() for shard in node.shards.values()]
    return StatusView(
        version=version,
        epoch=epoch,
        started_at=started_at,
        up_s=age_s(started_at, at),
        hold=hold,
        alarm=None if alarm is None else alarm_view(alarm, at),
        absent=absent,
        nodes=_counted(node.state for node in fleet.nodes.values()),
        fabrics=fabric_views(catalog, fleet),
        models=len(models),
        served=sum(model.ready > 0 for model in models),
        wanted=sum(model.wanted for model in models),
        ready=sum(model.ready for model in models),
        replicas=_counted(phases),
        problems=(
            *([f"alarm: {alarm_text(alarm)}"] if alarm else []),
            *([catalog_problem] if catalog_problem else []),
            *strangers,
            *_absences(absent, hold),
            *_node_problems(fleet.nodes, at),
            *_model_problems(models),
        ),
    )


def fabric_views(catalog: Catalog, fleet: Fleet) -> tuple[FabricView, ...]:
    """Show who is on each fast network, and what weights can be reached there."""
    return tuple(
        FabricView(
            name=found.name,
            attached=found.nodes,
            detached=found.detached,
            weights=_fabric_weights(found.stocks),
        )
        for found in fabric_stocks(catalog, fleet)
    )


def _fabric_weights(stocks: Iterable[Stock]) -> tuple[FabricWeights, ...]:
    copies: dict[str, list[Stock]] = {}
    for stock in stocks:
        copies.setdefault(stock.holding.source or stock.holding.path, []).append(stock)
    return tuple(
        FabricWeights(name=name, size_bytes=found[0].holding.size_bytes, copies=len(found))
        for name, found in sorted(copies.items())
    )


def alarm_view(alarm: Alarm, at: datetime) -> AlarmView:
    """Show the alarm."""
    return AlarmView(
        since=alarm.since,
        since_s=age_s(alarm.since, at),
        nodes=alarm.nodes,
        fleet=alarm.fleet,
        text=alarm_text(alarm),
    )


def _absences(absent: tuple[str, ...], hold: str | None) -> list[str]:
    # Whom a starting server still waits for is told by the hold.
    if hold is not None:
        return []
    return [
        f"node {node} has not registered since the server started; start its agent, or forget it with "
        f"'llmgw ctl nodes forget {node}'"
        for node in absent
    ]


def _node_problems(nodes: Mapping[str, Node], at: datetime) -> list[str]:
    problems = []
    for node_id in sorted(nodes):
        node = nodes[node_id]
        if node.state in _SILENT:
            problems.append(f"node {node_id} is {node.state} for {show_since(node.since, at)}")
        problems += [f"node {node_id}: {warning}" for warning in node_warnings(node)]
    return problems


def _model_problems(models: Iterable[ModelView]) -> list[str]:
    # A model with no replicas wanted is at rest, and needs nobody.
    return [model.why_not for model in models if model.why_not is not None and model.wanted > 0]


def _counted(words: Iterable[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for word in words:
        counts[str(word)] = counts.get(str(word), 0) + 1
    return dict(sorted(counts.items()))
