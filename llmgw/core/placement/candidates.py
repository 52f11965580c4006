"""Which nodes come to fit a model that fitted nowhere, by what they say anew of themselves.

A node says something new every few seconds, and most of it matters to nobody. So it is asked first whether anything
grew, which is cheap, and only then what a shard would find there.
"""

from collections.abc import Iterable, Iterator

import msgspec

from llmgw.core.fleet.hardware import Machine
from llmgw.core.fleet.snapshot import Node
from llmgw.core.placement.demand import Demand
from llmgw.core.placement.filters import FILTERS, judge
from llmgw.core.placement.room import room_of
from llmgw.core.placement.verdict import Verdict
from llmgw.core.units import MIB, show_bytes

LEAST_GROWTH_BYTES = 64 * MIB
"""Memory comes and goes all the time; less than this is not looked at before more has come to it."""


class Qualified(msgspec.Struct, frozen=True):
    """A model that fits on a node now, and what changed there."""

    model: str
    text: str


def qualified(asked: Iterable[tuple[str, Demand]], before: Node, after: Node) -> tuple[Qualified, ...]:
    """Find the models that a node could not take before and can take now, each once.

    Args:
        asked: what models that fit nowhere ask for, with the name of the model.
    """
    was, now = room_of(before), room_of(after)
    found: dict[str, Qualified] = {}
    for model, demand in asked:
        # Most still do not fit, which is quickly asked; a verdict takes many times as long.
        if model in found or any(one.refuses(demand, now) for one in FILTERS):
            continue
        if (refusal := judge(demand, was)) is not None:
            found[model] = Qualified(model, _change(refusal, before, after))
    return tuple(found.values())


def has_shrunk(before: Node, after: Node) -> bool:
    """Tell whether a node has noticeably less of something than before."""
    return _has_grown(after, before)


def may_qualify(before: Node, after: Node) -> bool:
    """Tell whether a node may fit what it did not before: something of it grew, or is another."""
    same = (
        before.state is after.state
        and before.pool == after.pool
        and before.labels == after.labels
        and before.engines == after.engines
        and before.machine.fabrics == after.machine.fabrics
        and before.weights == after.weights
    )
    return not same or _has_grown(before, after)


def _has_grown(before: Node, after: Node) -> bool:
    # A thousand heartbeats a second may come this way.
    had, has = _quantities(before.machine), _quantities(after.machine)
    return any(now - had.get(name, 0) >= LEAST_GROWTH_BYTES for name, now in has.items()) or any(
        name not in had for name in has
    )


def _quantities(machine: Machine) -> dict[str, int]:
    """Name every number of bytes that a shard may want."""
    memory = machine.memory
    found = {"total": memory.total_bytes, "available": memory.available_bytes}
    for gpu in machine.gpus or ():
        if gpu.problem is None:
            found[gpu.uuid] = gpu.free_bytes
    for one in machine.filesystems or ():
        found[one.mount] = one.free_bytes
    return {name: size for name, size in found.items() if size is not None}


def _change(refusal: Verdict, before: Node, after: Node) -> str:
    """Say what a node has now that it lacked, in the terms of the rule that refused it."""
    had, has = before.machine, after.machine
    for what, was, now in _differences(refusal.rule, had, has):
        if was != now:
            return f"{what} {was} -> {now}"
    return f"{refusal.rule}: it had {refusal.had}"


def _differences(rule: str, had: Machine, has: Machine) -> Iterator[tuple[str, str, str]]:
    if rule == "memory":
        yield "memory", show_bytes(had.memory.total_bytes), show_bytes(has.memory.total_bytes)
        yield "free memory", show_bytes(had.memory.available_bytes), show_bytes(has.memory.available_bytes)
    if "gpu" in rule:
        yield "GPUs that can be used", str(_usable(had)), str(_usable(has))
        yield "free GPU memory", show_bytes(_free_of_gpus(had)), show_bytes(_free_of_gpus(has))
    if rule == "disk":
        yield "free disk", show_bytes(_free_of_disks(had)), show_bytes(_free_of_disks(has))


def _usable(machine: Machine) -> int:
    return sum(gpu.problem is None for gpu in machine.gpus or ())


def _free_of_gpus(machine: Machine) -> int:
    return sum(gpu.free_bytes or 0 for gpu in machine.gpus or () if gpu.problem is None)


def _free_of_disks(machine: Machine) -> int:
    return sum(one.free_bytes or 0 for one in machine.filesystems or ())
