"""Weights of the fleet for programs and ctl: each place once, who sees it, who wants it."""

from collections.abc import Iterable
from datetime import UTC, datetime

import msgspec

from llmgw.core.fleet.collect import Stock
from llmgw.core.fleet.snapshot import Fleet


class WeightView(msgspec.Struct, frozen=True, kw_only=True):
    """Weights in one place.

    Attributes:
        source: what a catalog calls them, without what may be secret in it; None where nobody knows.
        path: on the first of `nodes`.
        name: in that node's cache; None for an operator's own file.
        complete: False for a download that is not finished.
        nodes: who sees this very place; several only where it is shared.
        device: what is mounted there.
        models: who wants it.
        removable: nobody wants it, and it is a cache's.
        why: the same in words.
        used_at: when it was last written or launched from, by that node's clock.
    """

    source: str | None
    path: str
    name: str | None
    size_bytes: int | None
    files: int
    complete: bool
    nodes: tuple[str, ...]
    shared: bool
    device: str | None
    models: tuple[str, ...]
    removable: bool
    why: str
    used_at: datetime | None


class WeightsView(msgspec.Struct, frozen=True, kw_only=True):
    """All weights.

    Attributes:
        removable_bytes: of what nobody wants and may be removed.
        silent: nodes that do not say what they hold.
    """

    weights: tuple[WeightView, ...]
    removable_bytes: int
    silent: tuple[str, ...]


def weights_view(stocks: Iterable[Stock], fleet: Fleet) -> WeightsView:
    """Show all weights, wanted ones first."""
    found = tuple(stocks)
    return WeightsView(
        weights=tuple(_view(stock) for stock in found),
        removable_bytes=sum(stock.holding.size_bytes or 0 for stock in found if stock.removable),
        silent=tuple(sorted(node.id for node in fleet.nodes.values() if node.weights is None)),
    )


def _view(stock: Stock) -> WeightView:
    holding = stock.holding
    return WeightView(
        source=holding.source,
        path=holding.path,
        name=holding.cache_name,
        size_bytes=holding.size_bytes,
        files=holding.files,
        complete=holding.complete,
        nodes=stock.nodes,
        shared=holding.shared,
        device=holding.device,
        models=stock.models,
        removable=stock.removable,
        why=stock.why,
        used_at=_at(holding.used_s),
    )


def _at(used_s: float | None) -> datetime | None:
    """Read a node's clock; one that is no time, or none that a date can show, is unknown."""
    try:
        return None if used_s is None else datetime.fromtimestamp(used_s, UTC)
    except (ValueError, OverflowError, OSError):
        return None
