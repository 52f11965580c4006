"""Each reason why a node cannot take a replica, one function each. What a node does not report refuses nobody."""

from collections.abc import Callable

import msgspec

from llmgw.core.fleet.snapshot import NodeState
from llmgw.core.placement.demand import Demand
from llmgw.core.placement.room import Room
from llmgw.core.units import show_bytes


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """Why one node was refused.

    Attributes:
        rule: which filter said no: state, selector, engine, memory.
        needed: what was asked for.
        had: what was there, in the node's own words where it gave any.
        would_fit_if: what would make it fit.
    """

    node: str
    rule: str
    needed: str
    had: str
    would_fit_if: str
    profile: str | None = None

    def __str__(self) -> str:
        return (
            f"{self.node}: {self.rule}: needs {self.needed}, has {self.had}; would fit if {self.would_fit_if}"
        )


Filter = Callable[[Demand, Room], Verdict | None]


def state(demand: Demand, room: Room) -> Verdict | None:
    """A node takes work only while it is ready."""
    node = room.node
    if node.state == NodeState.READY:
        return None
    remedy = {
        NodeState.CORDONED: "it were uncordoned",
        NodeState.DRAINING: "its drain were ended",
        NodeState.UNREACHABLE: "its agent came back",
        NodeState.LOST: "its agent came back",
    }[node.state]
    had = f"{node.state} since {node.since:%Y-%m-%d %H:%M:%S} UTC"
    return Verdict(node=node.id, rule="state", needed="a ready node", had=had, would_fit_if=remedy)


def selector(demand: Demand, room: Room) -> Verdict | None:
    """A node carries every label that is asked for."""
    node = room.node
    wrong = {key: value for key, value in demand.selector.items() if node.labels.get(key) != value}
    if not wrong:
        return None
    needed = ", ".join(f"{key}={value}" for key, value in sorted(wrong.items()))
    had = ", ".join(f"{key}={node.labels.get(key, '(none)')}" for key in sorted(wrong))
    return Verdict(
        node=node.id,
        rule="selector",
        needed=f"labels {needed}",
        had=had,
        would_fit_if=f"its agent.yaml set labels {needed}",
    )


def engine(demand: Demand, room: Room) -> Verdict | None:
    """The engine is on the node and was seen to run."""
    node = room.node
    if node.engines is None:
        return None
    installed = [e for e in node.engines if e.engine == demand.engine]
    if any(e.problem is None for e in installed):
        return None
    if installed:
        had = f"{demand.engine} at {installed[0].path}: {installed[0].problem}"
        remedy = "that were mended"
    else:
        names = ", ".join(sorted({e.engine for e in node.engines}))
        had = f"engines: {names}" if names else "no engine"
        remedy = f"{demand.engine} were installed there or named under engines in its agent.yaml"
    return Verdict(
        node=node.id, rule="engine", needed=f"engine {demand.engine}", had=had, would_fit_if=remedy
    )


def memory(demand: Demand, room: Room) -> Verdict | None:
    """Enough main memory is free, after what is promised to the replicas there."""
    needed, free = demand.memory_bytes, room.free_bytes
    if needed is None or free is None or needed <= free:
        return None
    had = f"{show_bytes(max(0, free))} free"
    total = room.node.machine.memory.total_bytes
    if total is not None:
        had += f" of {show_bytes(total)}"
    if room.claimed_bytes:
        had += f" ({show_bytes(room.claimed_bytes)} promised to the replicas there)"
    remedy = f"{show_bytes(needed - free)} more were free"
    if total is not None and needed > total:
        remedy = f"it had {show_bytes(needed - total)} more memory than it has in all, or the profile asked for less"
    return Verdict(
        node=room.node.id,
        rule="memory",
        needed=f"{show_bytes(needed)} of memory",
        had=had,
        would_fit_if=remedy,
    )


FILTERS: tuple[Filter, ...] = (state, selector, engine, memory)
"""In the order they are asked; the first that says no gives the verdict."""
