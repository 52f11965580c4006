"""Each reason to prefer a node: its number for one room, and which of many rooms have the lowest.

The lower number wins. Preferences never refuse, and what a node does not report comes last, not first.
"""

from collections.abc import Callable, Iterable
from math import inf

import msgspec

from llmgw.core.placement.column import lowest, rows_in
from llmgw.core.placement.demand import Demand
from llmgw.core.placement.gpu_filters import FreeGpus
from llmgw.core.placement.gpus import ask_of, tightest
from llmgw.core.placement.room import Room, copied, is_held
from llmgw.core.placement.rooms import Rooms
from llmgw.core.placement.space_filters import free_memory, holding


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """One reason to prefer a node.

    Attributes:
        name: what it looks at, for people.
        of: gives its number for a room.
        best: gives those rows of a set that have the lowest; a score without it looks at one room after the other.
    """

    name: str
    of: Callable[[str, Demand, Room], float]
    best: Callable[[str, Demand, Rooms, int], int] | None = None

    def best_of(self, model: str, demand: Demand, rooms: Rooms, among: int) -> int:
        """Give those rows of a set that this reason prefers; all of them are equal to it."""
        if self.best is not None:
            return self.best(model, demand, rooms, among)
        return _lowest(self.of, model, demand, rooms, among)


def _lowest(
    of: Callable[[str, Demand, Room], float], model: str, demand: Demand, rooms: Rooms, among: int
) -> int:
    rows = rows_in(among)
    return lowest([of(model, demand, rooms.rows[row]) for row in rows], rows)


def _failures(model: str, demand: Demand, room: Room) -> float:
    """Prefer a node where no copy of this model lies failed."""
    return room.failures.get(model, 0)


def _fewest_failures(model: str, demand: Demand, rooms: Rooms, among: int) -> int:
    return among & ~rooms.having(_failed, model) or _lowest(_failures, model, demand, rooms, among)


def _failed(room: Room) -> Iterable[str]:
    return room.failures


def _distance(model: str, demand: Demand, room: Room) -> float:
    """Prefer a node that holds the weights; one that was never asked to look counts as one that holds nothing."""
    return 0 if is_held(demand, room) else 1


def _nearest(model: str, demand: Demand, rooms: Rooms, among: int) -> int:
    return among & holding(demand, rooms) or among


def _copies(model: str, demand: Demand, room: Room) -> float:
    """Prefer the node with the fewest replicas of the same model."""
    return room.copies.get(model, 0)


def _fewest_copies(model: str, demand: Demand, rooms: Rooms, among: int) -> int:
    return among & ~rooms.having(copied, model) or _lowest(_copies, model, demand, rooms, among)


def _gpu_tightness(model: str, demand: Demand, room: Room) -> float:
    """Prefer the GPUs with the least free memory that is enough, so that large room stays for large models."""
    if not demand.gpus:
        return 0
    return tightest(FreeGpus(ask_of(demand))(room), demand.gpus, demand.gpu_bytes or 0)


def _tightest_gpus(model: str, demand: Demand, rooms: Rooms, among: int) -> int:
    if not demand.gpus:
        return among
    free, rows = rooms.facts(FreeGpus(ask_of(demand))), rows_in(among)
    count, least = demand.gpus, demand.gpu_bytes or 0
    return lowest([tightest(free[row], count, least) for row in rows], rows)


def _gpus_beside(model: str, demand: Demand, room: Room) -> float:
    """Prefer the node with the least GPU memory left in all, so that whole nodes stay for who needs many GPUs."""
    return gpu_memory_left(room) if demand.gpus else 0


def _least_beside(model: str, demand: Demand, rooms: Rooms, among: int) -> int:
    return rooms.column(gpu_memory_left).least(among) if demand.gpus else among


def gpu_memory_left(room: Room) -> float:
    """Add up what is left of the GPUs of a node that can be used, bytes; infinity when unknown."""
    return inf if room.gpu_kinds is None else sum(sum(kind.shared) for kind in room.gpu_kinds)


def _tightness(model: str, demand: Demand, room: Room) -> float:
    """Prefer the node with the least free memory that is enough."""
    return free_memory(room)


def _tightest_memory(model: str, demand: Demand, rooms: Rooms, among: int) -> int:
    return rooms.column(free_memory).least(among)


FAILURES = Score(name="no failed copy", of=_failures, best=_fewest_failures)
WEIGHTS = Score(name="weights there", of=_distance, best=_nearest)
COPIES = Score(name="fewest copies", of=_copies, best=_fewest_copies)
GPU_TIGHTNESS = Score(name="tightest GPUs", of=_gpu_tightness, best=_tightest_gpus)
GPUS_BESIDE = Score(name="least GPU memory beside", of=_gpus_beside, best=_least_beside)
TIGHTNESS = Score(name="tightest memory", of=_tightness, best=_tightest_memory)

SCORES: tuple[Score, ...] = (FAILURES, WEIGHTS, COPIES, GPU_TIGHTNESS, GPUS_BESIDE, TIGHTNESS)
"""In the order of their weight: a later one only breaks ties of the earlier."""
