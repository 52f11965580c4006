"""Choose the nodes of a replica among those that fit, all of its shards or none.

A replica of one node takes the best. One of several takes the best nodes that are attached to one fabric, where it
asks for one; with a choice of fabrics, that whose nodes are best together.
"""

from llmgw.core.placement.column import rows_in
from llmgw.core.placement.demand import Demand
from llmgw.core.placement.filters import ANY_FABRIC, attached, fabric_names
from llmgw.core.placement.rooms import Rooms
from llmgw.core.placement.scores import SCORES


def choose_rows(model: str, demand: Demand, rooms: Rooms, fitting: int) -> tuple[tuple[int, ...], str | None]:
    """Choose the rows of a replica's nodes, by rank, and the fabric they share; no rows when they do not suffice.

    Ranks are given in the order of the nodes' names.

    Args:
        fitting: the rows of nodes that one shard fits on.
    """
    if demand.nodes == 1 or demand.fabric is None:
        return _best_rows(model, demand, rooms, fitting), None
    choices = []
    for fabric in _fabrics(demand, rooms):
        rows = _best_rows(model, demand, rooms, fitting & attached(rooms, fabric))
        if rows:
            choices.append((rows, fabric))
    return _best_together(model, demand, rooms, choices) if choices else ((), None)


def most_together(demand: Demand, rooms: Rooms, fitting: int) -> tuple[int, str | None]:
    """Say how many of the nodes that fit are together, and on which fabric; what `choose_rows` found too few."""
    if demand.fabric is None:
        return fitting.bit_count(), None
    counts = [((fitting & attached(rooms, name)).bit_count(), name) for name in _fabrics(demand, rooms)]
    return max(counts, default=(0, None), key=lambda one: one[0])


def _fabrics(demand: Demand, rooms: Rooms) -> list[str]:
    if demand.fabric is not None and demand.fabric != ANY_FABRIC:
        return [demand.fabric]
    return fabric_names(rooms)


def _best_rows(model: str, demand: Demand, rooms: Rooms, fitting: int) -> tuple[int, ...]:
    """Choose the best rows, or none when there are too few.

    The rows that one score prefers are chosen together as long as they are not more than are still needed; where they
    are, the next score decides between them. Those of the first names come last, so that equal nodes are chosen the
    same way each time.
    """
    if fitting.bit_count() < demand.nodes:
        return ()
    chosen, missing = 0, demand.nodes
    for score in SCORES:
        if fitting.bit_count() == missing:
            break
        preferred = score.best_of(model, demand, rooms, fitting)
        while preferred.bit_count() < missing:
            chosen, fitting, missing = (
                chosen | preferred,
                fitting ^ preferred,
                missing - preferred.bit_count(),
            )
            preferred = score.best_of(model, demand, rooms, fitting)
        fitting = preferred
    return tuple(sorted([*rows_in(chosen), *rows_in(fitting)[:missing]]))


def _best_together(
    model: str, demand: Demand, rooms: Rooms, choices: list[tuple[tuple[int, ...], str]]
) -> tuple[tuple[int, ...], str]:
    """Choose the rows whose nodes are best together, of fabrics in the order of their names."""
    for score in SCORES:
        if len(choices) == 1:
            break
        sums = [sum([score.of(model, demand, rooms.rows[row]) for row in rows]) for rows, _ in choices]
        least = min(sums)
        choices = [choice for choice, added in zip(choices, sums, strict=True) if added == least]
    return choices[0]
