"""Fast networks, the nodes on them, and the weights that can be reached on each.

Weights on one fabric are no weights on another. What lies on a filer that several nodes share is there once; what lies
on the nodes' own disks is shown as one line with the number of copies.
"""

from collections.abc import Iterable

import msgspec

from llmgw.core.fleet.catalog import Catalog
from llmgw.core.fleet.collect import Stock, fabric_stocks
from llmgw.core.fleet.snapshot import Fleet
from llmgw.core.units import show_bytes


class HeldLine(msgspec.Struct, frozen=True, kw_only=True):
    """Weights that are reached somewhere.

    Attributes:
        name: as a catalog calls them, or their path.
        where: e.g. "on 3 nodes, shared on filer:/models (4 nodes)".
    """

    name: str
    size: str
    where: str


class FabricCard(msgspec.Struct, frozen=True, kw_only=True):
    """One fabric.

    Attributes:
        rates: of its adapters, as the kernel says them; None when no node says.
        attached: nodes whose adapter is up.
        troubles: one sentence on each node that is named and not attached.
        weights: None when no node on it says what it holds.
    """

    name: str
    rates: str | None
    attached: tuple[str, ...]
    troubles: tuple[str, ...]
    weights: tuple[HeldLine, ...] | None


def fabric_cards(catalog: Catalog, fleet: Fleet) -> tuple[FabricCard, ...]:
    """Show every fabric, in the order of names."""
    return tuple(
        FabricCard(
            name=stock.name,
            rates=_rates(stock.name, fleet),
            attached=stock.nodes,
            troubles=tuple(
                trouble for node in stock.detached for trouble in _troubles(stock.name, node, fleet)
            ),
            weights=None
            if all(fleet.nodes[node].weights is None for node in stock.nodes)
            else held_lines(stock.stocks),
        )
        for stock in fabric_stocks(catalog, fleet)
    )


def held_lines(stocks: Iterable[Stock]) -> tuple[HeldLine, ...]:
    """Show weights by their name, each once."""
    held: dict[str, list[Stock]] = {}
    for stock in stocks:
        held.setdefault(stock.holding.source or stock.holding.path, []).append(stock)
    return tuple(_line(name, held[name]) for name in sorted(held))


def place_words(stocks: Iterable[Stock]) -> str:
    """Say where copies of the same weights are."""
    own: list[str] = []
    shared: list[str] = []
    for stock in stocks:
        if stock.holding.shared:
            place = stock.holding.device or stock.holding.mount or "a shared filesystem"
            seen_by = f" ({_count(stock.nodes)})" if len(stock.nodes) > 1 else ""
            shared.append(f"shared on {place}{seen_by}")
        else:
            own += stock.nodes
    places = [f"on {own[0]}" if len(own) == 1 else f"on {_count(own)}"] if own else []
    return ", ".join([*places, *shared])


def _line(name: str, stocks: list[Stock]) -> HeldLine:
    sizes = [stock.holding.size_bytes for stock in stocks if stock.holding.size_bytes is not None]
    return HeldLine(name=name, size=show_bytes(max(sizes, default=None)), where=place_words(stocks))


def _rates(name: str, fleet: Fleet) -> str | None:
    rates = {
        fabric.rate
        for node in fleet.nodes.values()
        for fabric in node.machine.fabrics or ()
        if fabric.name == name and fabric.attached and fabric.rate
    }
    return ", ".join(sorted(rates)) or None


def _troubles(name: str, node: str, fleet: Fleet) -> list[str]:
    return [
        f"{node}: {fabric.adapter}: {fabric.problem or 'not attached'}"
        for fabric in fleet.nodes[node].machine.fabrics or ()
        if fabric.name == name
    ]


def _count(nodes: Iterable[str]) -> str:
    count = len(tuple(nodes))
    return "1 node" if count == 1 else f"{count} nodes"
