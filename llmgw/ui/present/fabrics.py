"""Fast networks, the nodes on them, and the weights that can be reached on each.

Weights on one fabric are no weights on another; one shared filer counts as much as many local copies. Nodes on no
fabric are shown together, for what they hold is held somewhere too.
"""

from collections.abc import Sequence

import msgspec

from llmgw.core.fleet.snapshot import Fleet, Node
from llmgw.core.fleet.weights import Holding
from llmgw.core.units import show_bytes


class HeldLine(msgspec.Struct, frozen=True, kw_only=True):
    """Weights on a fabric.

    Attributes:
        name: as a catalog calls them, or their path.
        where: e.g. "on 3 nodes", "on filer:/models (4 nodes)".
    """

    name: str
    size: str
    where: str


class FabricCard(msgspec.Struct, frozen=True, kw_only=True):
    """One fabric.

    Attributes:
        name: None for the nodes that are on none.
        attached: nodes whose adapter is up.
        troubles: one sentence on each node that is named and not attached.
        weights: None when no node on it says what it holds.
    """

    key: str
    name: str | None
    rate: str | None
    attached: tuple[str, ...]
    troubles: tuple[str, ...]
    weights: tuple[HeldLine, ...] | None


def fabric_cards(fleet: Fleet) -> tuple[FabricCard, ...]:
    """Show every fabric in the order of names, and last the nodes that are on none."""
    nodes = [fleet.nodes[node_id] for node_id in sorted(fleet.nodes)]
    names = sorted({fabric.name for node in nodes for fabric in node.machine.fabrics or ()})
    cards = [_card(name, nodes) for name in names]
    apart = [n for n in nodes if not any(fabric.attached for fabric in n.machine.fabrics or ())]
    if apart:
        cards.append(
            FabricCard(
                key="(none)",
                name=None,
                rate=None,
                attached=tuple(n.id for n in apart),
                troubles=(),
                weights=held_lines(apart),
            )
        )
    return tuple(cards)


def held_lines(nodes: Sequence[Node]) -> tuple[HeldLine, ...] | None:
    """List what these nodes hold, each source once; None when none of them says."""
    if all(node.weights is None for node in nodes):
        return None
    held: dict[str, list[tuple[str, Holding]]] = {}
    for node in nodes:
        for holding in node.weights or ():
            if holding.complete:
                held.setdefault(holding.source or holding.path, []).append((node.id, holding))
    return tuple(_line(name, held[name]) for name in sorted(held))


def _card(name: str, nodes: Sequence[Node]) -> FabricCard:
    on_it, rates, troubles = [], [], []
    for node in nodes:
        for fabric in node.machine.fabrics or ():
            if fabric.name != name:
                continue
            if fabric.attached:
                on_it.append(node)
                rates += [fabric.rate] if fabric.rate else []
            else:
                troubles.append(f"{node.id}: {fabric.adapter}: {fabric.problem or 'not attached'}")
    return FabricCard(
        key=name,
        name=name,
        rate=", ".join(sorted(set(rates))) or None,
        attached=tuple(dict.fromkeys(node.id for node in on_it)),
        troubles=tuple(troubles),
        weights=held_lines(on_it) if on_it else None,
    )


def _line(name: str, copies: Sequence[tuple[str, Holding]]) -> HeldLine:
    sizes = [holding.size_bytes for _, holding in copies if holding.size_bytes is not None]
    local = sorted({node for node, holding in copies if not holding.shared})
    filers: dict[str, set[str]] = {}
    for node, holding in copies:
        if holding.shared:
            filers.setdefault(holding.device or holding.mount or "a shared filesystem", set()).add(node)
    places = [f"shared on {filer} ({_nodes(len(found))})" for filer, found in sorted(filers.items())]
    if local:
        places.insert(0, f"on {local[0]}" if len(local) == 1 else f"on {_nodes(len(local))}")
    return HeldLine(name=name, size=show_bytes(max(sizes, default=None)), where=", ".join(places))


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"
