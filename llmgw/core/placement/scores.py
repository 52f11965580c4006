"""Each reason to prefer a node, one function each; the lower number wins. Preferences never refuse."""

from collections.abc import Callable

from llmgw.core.placement.demand import Demand
from llmgw.core.placement.room import Room

Score = Callable[[str, Demand, Room], float]


def failures(model: str, demand: Demand, room: Room) -> float:
    """Prefer a node where no copy of this model lies failed."""
    return room.failures.get(model, 0)


def copies(model: str, demand: Demand, room: Room) -> float:
    """Prefer the node with the fewest replicas of the same model."""
    return room.copies.get(model, 0)


def tightness(model: str, demand: Demand, room: Room) -> float:
    """Prefer the tightest fit, so that large room stays for large models; an unknown room comes last."""
    return float("inf") if room.free_bytes is None else room.free_bytes - (demand.memory_bytes or 0)


SCORES: tuple[Score, ...] = (failures, copies, tightness)
"""In the order of their weight: a later one only breaks ties of the earlier."""
