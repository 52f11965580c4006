"""The reasons to refuse a node that count bytes: too little main memory, too little disk for weights to be fetched."""

from collections.abc import Iterable
from math import inf

from llmgw.core.placement.demand import Demand
from llmgw.core.placement.measured import learned_words
from llmgw.core.placement.room import Room, coming, disk_asked, memory_asked
from llmgw.core.placement.rooms import Rooms
from llmgw.core.placement.verdict import Filter, Verdict, one_by_one
from llmgw.core.units import show_bytes


def _lacks_memory(demand: Demand, room: Room) -> bool:
    """Enough main memory is free, after what is promised to the shards there."""
    if room.free_bytes is None:
        return False
    asked = memory_asked(demand, room)
    return asked is not None and asked > room.free_bytes


def _with_memory(demand: Demand, rooms: Rooms, among: int) -> int:
    unified = among & rooms.having(_unified, True) if demand.gpus else 0
    enough = among if demand.memory_bytes is None else rooms.column(free_memory).at_least(demand.memory_bytes)
    return enough & ~unified | one_by_one(_lacks_memory, demand, rooms, unified)


def free_memory(room: Room) -> float:
    """Say how much main memory is left; infinity when unknown."""
    return inf if room.free_bytes is None else room.free_bytes


def _unified(room: Room) -> tuple[bool, ...]:
    return (True,) if room.unified else ()


def _memory_verdict(demand: Demand, room: Room) -> Verdict:
    needed, free = memory_asked(demand, room) or 0, room.free_bytes or 0
    had = f"{show_bytes(max(0, free))} free"
    total = room.node.machine.memory.total_bytes
    if total is not None:
        had += f" of {show_bytes(total)}"
    if room.claimed_bytes:
        had += f" ({show_bytes(room.claimed_bytes)} promised to the replicas there)"
    remedy = f"{show_bytes(needed - free)} more were free"
    if total is not None and needed > total:
        # What it lacks beside its size is what others hold; it would have to grow by both, or they would have to go.
        remedy = f"it had {show_bytes(needed - free)} more memory, or the profile asked for less"
    return Verdict(
        node=room.node.id,
        rule="memory",
        needed=f"{show_bytes(needed)} of memory ({_whence(demand, needed)})",
        had=had,
        would_fit_if=remedy,
    )


def _whence(demand: Demand, needed: int) -> str:
    """Say where the number was learned, and what else is known of it."""
    if demand.memory_bytes is None:
        return "its GPUs' share of it"
    learned = learned_words(
        demand.memory_said,
        estimated_bytes=demand.estimated_bytes,
        measured_bytes=demand.measured_bytes,
        spare_bytes=demand.spare_bytes,
    )
    return learned if needed == demand.memory_bytes else f"{learned}; its GPUs' share of it counted in"


def _lacks_disk(demand: Demand, room: Room) -> bool:
    """What is still to be fetched of the weights fits on the disk they are fetched to."""
    if room.disk is None or room.disk.left_bytes is None:
        return False
    asked = disk_asked(demand, room)
    return asked > 0 and asked > room.disk.left_bytes


def _with_disk(demand: Demand, rooms: Rooms, among: int) -> int:
    if not demand.disk_bytes:
        return among
    enough = rooms.column(_disk_left).at_least(demand.disk_bytes) | holding(demand, rooms)
    some = among & ~enough & rooms.having(coming, demand.cache_name)
    return enough | one_by_one(_lacks_disk, demand, rooms, some)


def _disk_left(room: Room) -> float:
    return inf if room.disk is None or room.disk.left_bytes is None else room.disk.left_bytes


def holding(demand: Demand, rooms: Rooms) -> int:
    """Give the rows of nodes that hold the weights, complete."""
    return rooms.having(_held, demand.source) | rooms.having(_held, demand.cache_name)


def _held(room: Room) -> Iterable[str]:
    return room.holds


def _disk_verdict(demand: Demand, room: Room) -> Verdict:
    disk, asked = room.disk, disk_asked(demand, room)
    assert disk is not None
    left = disk.left_bytes or 0
    filesystem = disk.filesystem
    had = f"{show_bytes(max(0, left))} free"
    if filesystem.total_bytes is not None:
        had += f" of {show_bytes(filesystem.total_bytes)}"
    had += f" on {filesystem.mount}"
    if filesystem.device:
        had += f" ({filesystem.device}{', shared' if filesystem.shared else ''})"
    if promised := sum(disk.promised.values()):
        had += f", {show_bytes(promised)} promised to downloads"
    return Verdict(
        node=room.node.id,
        rule="disk",
        needed=f"{show_bytes(asked)} of disk for weights that are not there yet",
        had=had,
        would_fit_if=f"{show_bytes(asked - left)} more were free on {filesystem.mount}, or the weights were there",
    )


MEMORY = Filter(rule="memory", refuses=_lacks_memory, verdict=_memory_verdict, passing=_with_memory)
DISK = Filter(rule="disk", refuses=_lacks_disk, verdict=_disk_verdict, passing=_with_disk)
