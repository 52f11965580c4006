"""The reasons to refuse a node that are about its GPUs: too few, of another kind, or too little of them left."""

from math import inf

import msgspec

from llmgw.core.fleet.hardware import Gpu, GpuProcess
from llmgw.core.placement.column import rows_in, set_of
from llmgw.core.placement.demand import Demand
from llmgw.core.placement.gpus import (
    UNKNOWN_GPUS,
    WHOLE_SHARE,
    GpuAsk,
    GpuRoom,
    ask_of,
    asked_bytes,
    is_of_class,
    most_each,
    serves,
)
from llmgw.core.placement.room import Room
from llmgw.core.placement.rooms import Rooms
from llmgw.core.placement.verdict import Filter, Verdict
from llmgw.core.units import show_bytes

_SHOWN = 8


class GpuCounts(msgspec.Struct, frozen=True, gc=False):
    """Counts the GPUs of a node that are of a class (None: of any) and can be used.

    Called with a room, it lists each number of them that the node has: one that has three has one, two and three.
    """

    gpu_class: str | None = None

    def of(self, room: Room) -> float:
        """Count those of one room; infinity when nobody said which there are."""
        if room.gpu_kinds is None:
            return inf if room.node.machine.gpu_problem is None else 0
        count = 0
        for kind in room.gpu_kinds:
            if is_of_class(kind.gpu_class, self.gpu_class):
                count += kind.count
        return count

    def __call__(self, room: Room) -> range | tuple[None, ...]:
        """List them; None stands for any number."""
        count = self.of(room)
        return (None,) if count == inf else range(1, int(count) + 1)

    def at_least(self, count: int, rooms: Rooms) -> int:
        """Give the rows of nodes that have so many."""
        return rooms.having(self, count) | rooms.having(self, None)


class FreeGpus(msgspec.Struct, frozen=True, gc=False):
    """Lists what the GPUs of a node have left for one kind of asking."""

    ask: GpuAsk

    def __call__(self, room: Room) -> tuple[float, ...]:
        """List it for one room, bytes, the least first."""
        kinds = room.gpu_kinds
        # Many nodes have no GPUs, and none has many kinds of them.
        if not kinds:
            return () if kinds is not None else UNKNOWN_GPUS
        return self.ask.free(kinds)


def _lacks_gpus(demand: Demand, room: Room) -> bool:
    """A node has as many GPUs as are asked for, lost ones not counted."""
    return demand.gpus > 0 and GpuCounts().of(room) < demand.gpus


def _with_gpus(demand: Demand, rooms: Rooms, among: int) -> int:
    return GpuCounts().at_least(demand.gpus, rooms) if demand.gpus else among


def _gpus_verdict(demand: Demand, room: Room) -> Verdict:
    machine = room.node.machine
    lost = [one.gpu for one in room.gpus or () if one.gpu.problem is not None]
    usable = int(GpuCounts().of(room))
    remedy = f"it had {demand.gpus - usable} more"
    if machine.gpu_problem is not None and not usable:
        had, remedy = f"none that it can tell of: {machine.gpu_problem}", "that were mended"
    elif lost:
        had = f"{usable} that can be used; {'; '.join(_lost(gpu) for gpu in lost)}"
        if usable + len(lost) >= demand.gpus:
            remedy = f"{', '.join(_named(gpu) for gpu in lost)} came back"
    else:
        had = f"{usable}" if usable else "none"
    return Verdict(node=room.node.id, rule="gpus", needed=_count(demand.gpus), had=had, would_fit_if=remedy)


def _lacks_class(demand: Demand, room: Room) -> bool:
    """As many of them as are asked for are of the class that is asked for."""
    return demand.gpu_class is not None and GpuCounts(demand.gpu_class).of(room) < demand.gpus


def _of_class(demand: Demand, rooms: Rooms, among: int) -> int:
    if demand.gpu_class is None:
        return among
    return GpuCounts(demand.gpu_class).at_least(demand.gpus, rooms)


def _class_verdict(demand: Demand, room: Room) -> Verdict:
    counts: dict[str, int] = {}
    for one in room.gpus or ():
        name = (one.gpu.gpu_class or one.gpu.name or "unknown") + (" (lost)" if one.gpu.problem else "")
        counts[name] = counts.get(name, 0) + 1
    had = ", ".join(f"{count} x {name}" for name, count in sorted(counts.items()))
    missing = demand.gpus - int(GpuCounts(demand.gpu_class).of(room))
    return Verdict(
        node=room.node.id,
        rule="gpu-class",
        needed=f"{_count(demand.gpus)} of class {demand.gpu_class}",
        had=had,
        would_fit_if=f"it had {missing} more of that class, or the profile asked for another gpu_class",
    )


def _lacks_gpu_memory(demand: Demand, room: Room) -> bool:
    """Enough of each is free now, whoever holds the rest, after what is promised to shards that are coming."""
    if not demand.gpus:
        return False
    return most_each(FreeGpus(ask_of(demand))(room), demand.gpus) < (demand.gpu_bytes or 0)


def _with_gpu_memory(demand: Demand, rooms: Rooms, among: int) -> int:
    if not demand.gpus:
        return among
    free, count, least = rooms.facts(FreeGpus(ask_of(demand))), demand.gpus, demand.gpu_bytes or 0
    return set_of([row for row in rows_in(among) if len(one := free[row]) >= count and one[-count] >= least])


def _gpu_memory_verdict(demand: Demand, room: Room) -> Verdict:
    asked = [one for one in room.gpus or () if is_of_class(one.gpu.gpu_class, demand.gpu_class)]
    more = f"; and {len(asked) - _SHOWN} more" if len(asked) > _SHOWN else ""
    return Verdict(
        node=room.node.id,
        rule="gpu-memory",
        needed=_needed(demand),
        had="; ".join(_left(one) for one in asked[:_SHOWN]) + more,
        would_fit_if=_remedy(demand, asked),
    )


def _needed(demand: Demand) -> str:
    text = _count(demand.gpus)
    if demand.gpu_class is not None:
        text += f" of class {demand.gpu_class}"
    if demand.takes_whole:
        return f"{text} to itself, {WHOLE_SHARE:.0%} of the memory free"
    parts = [] if demand.gpu_bytes is None else [show_bytes(demand.gpu_bytes)]
    parts += [] if demand.gpu_share is None else [f"{demand.gpu_share:.0%} of the memory"]
    return f"{text} with {' and '.join(parts)} free{' on each' if demand.gpus > 1 else ''}"


def _left(one: GpuRoom) -> str:
    """Say what is left of one GPU and who has the rest."""
    gpu = one.gpu
    if gpu.problem is not None:
        return _lost(gpu)
    if one.is_taken:
        return f"{_named(gpu)}: taken by {', '.join(one.holders)}"
    text = f"{_named(gpu)}: {show_bytes(None if one.left_bytes is None else max(0, one.left_bytes))} free"
    if gpu.total_bytes is not None:
        text += f" of {show_bytes(gpu.total_bytes)}"
    who = [f"{_process(process)} holds {show_bytes(process.held_bytes)}" for process in gpu.foreign or ()]
    who += [f"shared with {', '.join(one.holders)}"] if one.holders else []
    return f"{text} ({', '.join(who)})" if who else text


def _remedy(demand: Demand, asked: list[GpuRoom]) -> str:
    """Say what would have to go of those GPUs that come nearest."""
    usable = [one for one in asked if one.gpu.problem is None]
    bad = [one for one in usable if not serves(demand, one)]
    missing = demand.gpus - (len(usable) - len(bad))
    able = [one for one in bad if (one.gpu.total_bytes or inf) >= _wanted(demand, one.gpu)]
    if len(able) < missing:
        return "its GPUs were larger, or the profile asked for less of them"
    able.sort(key=lambda one: (one.is_taken, -(one.left_bytes or 0)))
    return " and ".join(_remedy_of(demand, one) for one in able[:missing])


def _remedy_of(demand: Demand, one: GpuRoom) -> str:
    gpu = one.gpu
    foreign = sorted(gpu.foreign or (), key=lambda process: -(process.held_bytes or 0))
    held = sum(process.held_bytes or 0 for process in foreign)
    if one.is_taken or (demand.takes_whole and one.holders):
        # When ours have left, what is not free is what others hold.
        lacking = 0 if gpu.total_bytes is None else _wanted(demand, gpu) - (gpu.total_bytes - held)
        others = [f"{_these(foreign, lacking)} let go of it"] if lacking > 0 else []
        return " and ".join([f"{', '.join(one.holders)} left {_named(gpu)}", *others])
    lacking = _wanted(demand, gpu) - (one.left_bytes or 0)
    if 0 < lacking <= held:
        return f"{_these(foreign, lacking)} let go of {_named(gpu)}"
    return f"{show_bytes(lacking)} more were free on {_named(gpu)}"


def _these(foreign: list[GpuProcess], lacking: int) -> str:
    """Name as many processes, the largest first, as hold what is lacking."""
    count = 1
    while sum(process.held_bytes or 0 for process in foreign[:count]) < lacking:
        count += 1
    return " and ".join(_process(process) for process in foreign[:count])


def _wanted(demand: Demand, gpu: Gpu) -> int:
    share = WHOLE_SHARE if demand.takes_whole else demand.gpu_share
    return asked_bytes(gpu.total_bytes, demand.gpu_bytes, share)


def _process(process: GpuProcess) -> str:
    return f"pid {process.pid} ({process.command})" if process.command else f"pid {process.pid}"


def _lost(gpu: Gpu) -> str:
    return f"{_named(gpu)} cannot be used: {gpu.problem}"


def _named(gpu: Gpu) -> str:
    return f"gpu {gpu.uuid if gpu.index is None else gpu.index}"


def _count(count: int) -> str:
    return "1 GPU" if count == 1 else f"{count} GPUs"


GPUS = Filter(rule="gpus", refuses=_lacks_gpus, verdict=_gpus_verdict, passing=_with_gpus)
GPU_CLASS = Filter(rule="gpu-class", refuses=_lacks_class, verdict=_class_verdict, passing=_of_class)
GPU_MEMORY = Filter(
    rule="gpu-memory", refuses=_lacks_gpu_memory, verdict=_gpu_memory_verdict, passing=_with_gpu_memory
)
