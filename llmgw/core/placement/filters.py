"""Each reason why a node cannot take a replica: whether it says no, and how it says so.

The two are apart because thousands of nodes are asked for every replica, and few of them have to explain themselves.
What a node does not report refuses nobody.
"""

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


class Filter(msgspec.Struct, frozen=True):
    """One reason to refuse a node.

    Attributes:
        refuses: tells whether this reason holds.
        verdict: says it, of a node that was refused.
    """

    refuses: Callable[[Demand, Room], bool]
    verdict: Callable[[Demand, Room], Verdict]


def _is_not_ready(demand: Demand, room: Room) -> bool:
    """A node takes work only while it is ready."""
    return room.node.state is not NodeState.READY


def _state_verdict(demand: Demand, room: Room) -> Verdict:
    node = room.node
    remedy = {
        NodeState.CORDONED: f"it were uncordoned with 'llmgw ctl nodes uncordon {node.id}'",
        NodeState.DRAINING: f"its drain were ended with 'llmgw ctl nodes uncordon {node.id}'",
    }.get(node.state, "its agent came back")
    had = f"{node.state} since {node.since:%Y-%m-%d %H:%M:%S} UTC"
    return Verdict(node=node.id, rule="state", needed="a ready node", had=had, would_fit_if=remedy)


def _lacks_labels(demand: Demand, room: Room) -> bool:
    """A node carries every label that is asked for."""
    return any(room.node.labels.get(key) != value for key, value in demand.selector)


def _selector_verdict(demand: Demand, room: Room) -> Verdict:
    node = room.node
    wrong = {key: value for key, value in demand.selector if node.labels.get(key) != value}
    needed = ", ".join(f"{key}={value}" for key, value in sorted(wrong.items()))
    had = ", ".join(f"{key}={node.labels.get(key, '(none)')}" for key in sorted(wrong))
    return Verdict(
        node=node.id,
        rule="selector",
        needed=f"labels {needed}",
        had=had,
        would_fit_if=f"its agent.yaml set labels {needed}",
    )


def _lacks_engine(demand: Demand, room: Room) -> bool:
    """The engine is on the node and was seen to run."""
    return room.engines is not None and demand.engine not in room.engines


def _engine_verdict(demand: Demand, room: Room) -> Verdict:
    node = room.node
    known = node.engines or ()
    broken = next((e for e in known if e.engine == demand.engine), None)
    if broken is not None:
        had = f"{demand.engine} at {broken.path}: {broken.problem}"
        remedy = "that were mended"
    else:
        names = ", ".join(sorted({e.engine for e in known}))
        had = f"engines: {names}" if names else "no engine"
        remedy = f"{demand.engine} were installed there or named under engines in its agent.yaml"
    return Verdict(
        node=node.id, rule="engine", needed=f"engine {demand.engine}", had=had, would_fit_if=remedy
    )


def _lacks_memory(demand: Demand, room: Room) -> bool:
    """Enough main memory is free, after what is promised to the replicas there."""
    needed, free = demand.memory_bytes, room.free_bytes
    return needed is not None and free is not None and needed > free


def _memory_verdict(demand: Demand, room: Room) -> Verdict:
    needed, free = demand.memory_bytes or 0, room.free_bytes or 0
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


STATE = Filter(_is_not_ready, _state_verdict)
SELECTOR = Filter(_lacks_labels, _selector_verdict)
ENGINE = Filter(_lacks_engine, _engine_verdict)
MEMORY = Filter(_lacks_memory, _memory_verdict)

FILTERS: tuple[Filter, ...] = (STATE, SELECTOR, ENGINE, MEMORY)
"""In the order they are asked; the first that says no gives the verdict."""
