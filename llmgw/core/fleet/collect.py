"""What weights lie where in the fleet, who wants them, and which of them nobody wants.

What lies on a filesystem that several nodes share is one thing, however many of them see it. Only what llmgw itself
put into a cache may be removed; what an operator put somewhere is his, wanted or not.
"""

from collections.abc import Collection, Iterable, Mapping

import msgspec
from msgspec.structs import replace

from llmgw.core.fleet.catalog import Catalog
from llmgw.core.fleet.snapshot import Fleet, Node
from llmgw.core.fleet.weights import Holding, LocalFile, cache_name_of, read_source, shown_source

_OWN = "an operator's own; llmgw removes only what it fetched"
_UNFINISHED = "an unfinished download that no model of the catalog wants"
_NOT_YET = "an unfinished download, wanted by"
_UNWANTED = "no model of the catalog wants it"


class Stock(msgspec.Struct, frozen=True, kw_only=True):
    """Weights in one place.

    Attributes:
        nodes: who sees this very place; several only where it is shared.
        models: names of the models of the catalog that want it.
        removable: nobody wants it, and it is a cache's.
        why: the same in words.
    """

    holding: Holding
    nodes: tuple[str, ...]
    models: tuple[str, ...] = ()
    removable: bool = False
    why: str = ""


class FabricStock(msgspec.Struct, frozen=True, kw_only=True):
    """A fabric, who is on it, and the weights that its nodes reach: shared ones once, others once a node.

    Attributes:
        nodes: those whose adapter is attached.
        detached: those that are said to be on it and whose adapter is not attached.
    """

    name: str
    nodes: tuple[str, ...] = ()
    detached: tuple[str, ...] = ()
    stocks: tuple[Stock, ...] = ()


class Collected(msgspec.Struct, frozen=True, kw_only=True):
    """What became of asking one node to remove weights.

    Attributes:
        node: None for what no node was asked for.
        refused: why, by each name that stays.
        error: why the node gave no answer.
    """

    node: str | None
    removed: tuple[str, ...] = ()
    freed_bytes: int = 0
    refused: dict[str, str] = {}
    error: str | None = None


def wanted_sources(catalog: Catalog) -> tuple[str, ...]:
    """List the sources that a catalog names, in its order, each once."""
    named = (profile.weights for model in catalog.models for profile in model.profiles)
    return tuple(dict.fromkeys(named))


def stocks(catalog: Catalog, fleet: Fleet) -> tuple[Stock, ...]:
    """List all weights of the fleet, each place once, unwanted ones behind wanted ones."""
    wanting, places = _wanting(catalog), _places(fleet.nodes.values())
    found = [_stock(holding, tuple(nodes), wanting) for holding, nodes in places]
    return tuple(sorted(found, key=lambda stock: (not stock.models, stock.nodes, stock.holding.path)))


def fabric_stocks(catalog: Catalog, fleet: Fleet) -> tuple[FabricStock, ...]:
    """List the fabrics that nodes are on, each with the finished weights that it reaches."""
    on: dict[str, list[str]] = {}
    off: dict[str, list[str]] = {}
    for node in fleet.nodes.values():
        for fabric in node.machine.fabrics or ():
            (on if fabric.attached else off).setdefault(fabric.name, []).append(node.id)
    wanting = _wanting(catalog)
    return tuple(
        FabricStock(
            name=name,
            nodes=tuple(sorted(set(on.get(name, ())))),
            detached=tuple(sorted(set(off.get(name, ())) - set(on.get(name, ())))),
            stocks=tuple(
                _stock(holding, tuple(nodes), wanting)
                for holding, nodes in _places(fleet.nodes[node] for node in sorted(set(on.get(name, ()))))
                if holding.complete
            ),
        )
        for name in sorted({*on, *off})
    )


def asked_for(
    found: Iterable[Stock],
    connected: Collection[str],
    names: Collection[str] = (),
    nodes: Collection[str] = (),
) -> tuple[dict[str, tuple[str, ...]], tuple[Collected, ...]]:
    """Say which node is asked to remove which names, and what is refused without asking.

    Args:
        connected: nodes that can be asked. Of a shared place one of them is asked; where none is, one is named all the
            same, so that it shows that nobody could be asked.
        names: ask for these alone. What no node reports is asked of every connected node: it knows best what it is.
        nodes: ask these alone; empty asks all.
    """
    found = tuple(found)
    asked: dict[str, dict[str, None]] = {}
    refused: dict[str, str] = {}
    for stock in found:
        name = stock.holding.cache_name
        if name is None or (names and name not in names):
            continue
        seen_by = [node for node in stock.nodes if not nodes or node in nodes]
        if stock.removable and seen_by:
            node = next((node for node in seen_by if node in connected), seen_by[0])
            asked.setdefault(node, {})[name] = None
        elif names and not stock.removable:
            refused[name] = stock.why
    known = {stock.holding.cache_name for stock in found}
    for name in names:
        if name not in known:
            for node in sorted(connected):
                if not nodes or node in nodes:
                    asked.setdefault(node, {})[name] = None
    outcome = (Collected(node=None, refused=refused),) if refused else ()
    return {node: tuple(asked[node]) for node in sorted(asked)}, outcome


def _wanting(catalog: Catalog) -> Mapping[str, tuple[str, ...]]:
    """Name the models that want something, by its cache name, by its source and, on the node, by its path."""
    wanting: dict[str, dict[str, None]] = {}
    for model in catalog.models:
        for profile in model.profiles:
            source = read_source(profile.weights)
            keys = [profile.weights, cache_name_of(profile.weights)]
            keys.append(source.path if isinstance(source, LocalFile) else None)
            for key in keys:
                if key is not None:
                    wanting.setdefault(key, {})[model.name] = None
    return {key: tuple(models) for key, models in wanting.items()}


def _places(nodes: Iterable[Node]) -> list[tuple[Holding, list[str]]]:
    found: dict[tuple[str | None, ...], tuple[Holding, list[str]]] = {}
    for node in nodes:
        for holding in node.weights or ():
            _, seen_by = found.setdefault(_place(node.id, holding), (holding, []))
            if node.id not in seen_by:
                seen_by.append(node.id)
    return list(found.values())


def _place(node: str, holding: Holding) -> tuple[str | None, ...]:
    if not holding.shared or holding.device is None:
        return (node, holding.path)
    # Each node may have the filer mounted somewhere else.
    return (None, holding.device, holding.path.removeprefix((holding.mount or "").rstrip("/")))


def _stock(holding: Holding, nodes: tuple[str, ...], wanting: Mapping[str, tuple[str, ...]]) -> Stock:
    keys = (holding.cache_name, holding.source, holding.path if holding.cache_name is None else None)
    models = tuple(dict.fromkeys(model for key in keys if key for model in wanting.get(key, ())))
    if models:
        why = f"{'wanted by' if holding.complete else _NOT_YET} {', '.join(models)}"
    elif holding.cache_name is None:
        why = _OWN
    else:
        why = _UNWANTED if holding.complete else _UNFINISHED
    removable = not models and holding.cache_name is not None
    if holding.source is not None:
        holding = replace(holding, source=shown_source(holding.source))
    return Stock(holding=holding, nodes=nodes, models=models, removable=removable, why=why)
