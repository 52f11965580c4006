"""Weights as rows of a table: what is held where, who wants it, and what nobody does."""

from collections.abc import Iterable

import msgspec

from llmgw.core.fleet.collect import Collected, Stock
from llmgw.core.units import show_bytes
from llmgw.ui.present.fabrics import place_words


class WeightRow(msgspec.Struct, frozen=True, kw_only=True):
    """The copies of one file or folder that are alike.

    Attributes:
        state: "wanted", "unwanted" (and removable) or "own" (an operator's, wanted by nobody).
        path: where it lies; the first place of several.
        nodes: who sees it, the first few; `more` counts the others.
        complete: False for a download that is not finished.
    """

    key: str
    name: str
    state: str
    why: str
    size: str
    path: str
    where: str
    nodes: tuple[str, ...]
    more: int
    complete: bool


class WeightFigures(msgspec.Struct, frozen=True, kw_only=True):
    """How much is held, and how much of it nobody wants; each place counted once.

    Attributes:
        silent: nodes that do not say what they hold.
    """

    wanted: str
    unwanted: str
    removable: int
    silent: tuple[str, ...]


class Collection(msgspec.Struct, frozen=True, kw_only=True):
    """What would be removed if nobody objects.

    Attributes:
        names: in the caches, separated by spaces.
        size: of all of it.
    """

    rows: tuple[WeightRow, ...]
    names: str
    size: str


class CollectedRow(msgspec.Struct, frozen=True, kw_only=True):
    """What became of asking one node.

    Attributes:
        node: None for what no node was asked for.
        said: one sentence each.
    """

    node: str | None
    removed: int
    freed: str
    said: tuple[str, ...]


_SHOWN = 6


def weight_rows(stocks: Iterable[Stock]) -> tuple[WeightRow, ...]:
    """Show weights, those that nobody wants first."""
    alike: dict[tuple[str, str, bool], list[Stock]] = {}
    for stock in stocks:
        name = stock.holding.source or stock.holding.path
        alike.setdefault((name, _state(stock), stock.holding.complete), []).append(stock)
    rows = [_row(*key, found) for key, found in alike.items()]
    order = {"unwanted": 0, "wanted": 1, "own": 2}
    return tuple(sorted(rows, key=lambda row: (order[row.state], row.name)))


def collection(stocks: Iterable[Stock]) -> Collection:
    """Show what nobody wants and may be removed."""
    found = [stock for stock in stocks if stock.removable and stock.holding.cache_name is not None]
    return Collection(
        rows=weight_rows(found),
        names=" ".join(sorted({stock.holding.cache_name or "" for stock in found})),
        size=show_bytes(_sum(found)),
    )


def collected_rows(done: Iterable[Collected]) -> tuple[CollectedRow, ...]:
    """Show what became of it, a node at a time."""
    return tuple(
        CollectedRow(
            node=one.node,
            removed=len(one.removed),
            freed=show_bytes(one.freed_bytes),
            said=(
                *([one.error] if one.error else []),
                *(f"{name}: {why}" for name, why in one.refused.items()),
            ),
        )
        for one in done
    )


def weight_figures(stocks: Iterable[Stock], silent: Iterable[str]) -> WeightFigures:
    """Sum up weights.

    Args:
        silent: nodes that do not say what they hold.
    """
    found = list(stocks)
    return WeightFigures(
        wanted=show_bytes(_sum(stock for stock in found if stock.models)),
        unwanted=show_bytes(_sum(stock for stock in found if stock.removable)),
        removable=sum(stock.removable for stock in found),
        silent=tuple(sorted(silent)),
    )


def _row(name: str, state: str, complete: bool, stocks: list[Stock]) -> WeightRow:
    nodes = tuple(dict.fromkeys(node for stock in stocks for node in stock.nodes))
    return WeightRow(
        key=f"{state}:{complete:d}:{name}",
        name=name,
        state=state,
        why=stocks[0].why,
        size=show_bytes(max((s.holding.size_bytes or 0 for s in stocks), default=0) or None),
        path=stocks[0].holding.path,
        where=place_words(stocks),
        nodes=nodes[:_SHOWN],
        more=max(0, len(nodes) - _SHOWN),
        complete=complete,
    )


def _state(stock: Stock) -> str:
    if stock.models:
        return "wanted"
    return "unwanted" if stock.removable else "own"


def _sum(stocks: Iterable[Stock]) -> int:
    return sum(stock.holding.size_bytes or 0 for stock in stocks)
