"""Each reason why a node cannot take a shard: whether it says no, how it says so, and how many nodes are asked at once.

The three are apart because thousands of nodes are asked for every shard, and few of them have to explain themselves.
What a node does not report refuses nobody. The reasons that count GPUs and bytes are in modules of their own.
"""

from collections.abc import Iterable

from llmgw.core.fleet.snapshot import NodeState
from llmgw.core.placement.demand import Demand
from llmgw.core.placement.gpu_filters import GPU_CLASS, GPU_MEMORY, GPUS
from llmgw.core.placement.room import Room
from llmgw.core.placement.rooms import Rooms
from llmgw.core.placement.space_filters import DISK, MEMORY
from llmgw.core.placement.verdict import Filter, Verdict

RANKS_SINCE = 2
"""The protocol of the link since which agents know what to do with one rank of several."""
ANY_FABRIC = "any"
"""What a catalog writes for a fabric that all nodes of a replica share, whichever that is."""


def _is_not_ready(demand: Demand, room: Room) -> bool:
    """A node takes work only while it is ready."""
    return room.node.state is not NodeState.READY


def _ready(demand: Demand, rooms: Rooms, among: int) -> int:
    return rooms.having(_states, NodeState.READY)


def _states(room: Room) -> tuple[NodeState]:
    return (room.node.state,)


def _state_verdict(demand: Demand, room: Room) -> Verdict:
    node = room.node
    remedy = {
        NodeState.CORDONED: f"it were uncordoned with 'llmgw ctl nodes uncordon {node.id}'",
        NodeState.DRAINING: f"its drain were ended with 'llmgw ctl nodes uncordon {node.id}'",
    }.get(node.state, "its agent came back")
    had = f"{node.state} since {node.since:%Y-%m-%d %H:%M:%S} UTC"
    return Verdict(node=node.id, rule="state", needed="a ready node", had=had, would_fit_if=remedy)


def _is_of_another_pool(demand: Demand, room: Room) -> bool:
    """A node is of the pool that is asked for."""
    return demand.pool is not None and room.node.pool != demand.pool


def _of_pool(demand: Demand, rooms: Rooms, among: int) -> int:
    return among if demand.pool is None else rooms.having(_pools, demand.pool)


def _pools(room: Room) -> tuple[str]:
    return (room.node.pool,)


def _pool_verdict(demand: Demand, room: Room) -> Verdict:
    return Verdict(
        node=room.node.id,
        rule="pool",
        needed=f"pool {demand.pool}",
        had=f"pool {room.node.pool}",
        would_fit_if=f"its agent.yaml set pool: {demand.pool}",
    )


def _lacks_labels(demand: Demand, room: Room) -> bool:
    """A node carries every label that is asked for."""
    return any(room.node.labels.get(key) != value for key, value in demand.selector)


def _labelled(demand: Demand, rooms: Rooms, among: int) -> int:
    for label in demand.selector:
        among &= rooms.having(_labels, label)
    return among


def _labels(room: Room) -> Iterable[tuple[str, str]]:
    return room.node.labels.items()


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


def _with_engine(demand: Demand, rooms: Rooms, among: int) -> int:
    return rooms.having(_engines, demand.engine) | rooms.having(_engines, None)


def _engines(room: Room) -> Iterable[str | None]:
    return (None,) if room.engines is None else room.engines


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


def _is_too_old(demand: Demand, room: Room) -> bool:
    """The agent knows what a rank is: one that does not would run each as if it were the whole replica."""
    protocol = room.node.protocol
    return demand.nodes > 1 and protocol is not None and protocol < RANKS_SINCE


def _new_enough(demand: Demand, rooms: Rooms, among: int) -> int:
    return among if demand.nodes == 1 else rooms.having(_knows_ranks, True)


def _knows_ranks(room: Room) -> tuple[bool]:
    protocol = room.node.protocol
    return (protocol is None or protocol >= RANKS_SINCE,)


def _agent_verdict(demand: Demand, room: Room) -> Verdict:
    node = room.node
    return Verdict(
        node=node.id,
        rule="agent",
        needed=f"an agent that knows replicas of several nodes (protocol {RANKS_SINCE})",
        had=f"version {node.version or 'unknown'}, protocol {node.protocol or 'unknown'}",
        would_fit_if="its llmgw were updated to the server's version",
    )


def _is_off_the_fabric(demand: Demand, room: Room) -> bool:
    """A node is attached to the network that is asked for.

    One that does not say its networks is refused only where several nodes must share one: that they do has to be known.
    """
    if demand.fabric is None:
        return False
    if room.fabrics is None:
        return demand.nodes > 1
    return not room.fabrics if demand.fabric == ANY_FABRIC else demand.fabric not in room.fabrics


def _on_fabric(demand: Demand, rooms: Rooms, among: int) -> int:
    if demand.fabric is None:
        return among
    unknown = rooms.having(_attachments, None) if demand.nodes == 1 else 0
    return rooms.having(_attachments, demand.fabric) | unknown


def _attachments(room: Room) -> tuple[str | None, ...]:
    if room.fabrics is None:
        return (None,)
    return (*room.fabrics, ANY_FABRIC) if room.fabrics else ()


def attached(rooms: Rooms, fabric: str) -> int:
    """Give the rows of nodes that are known to be attached to a fabric."""
    return rooms.having(_attachments, fabric)


def fabric_names(rooms: Rooms) -> list[str]:
    """List the fabrics that any node is attached to."""
    return sorted(str(name) for name in rooms.names(_attachments) if name not in (None, ANY_FABRIC))


def _fabric_verdict(demand: Demand, room: Room) -> Verdict:
    wanted = "a fabric" if demand.fabric == ANY_FABRIC else f"fabric {demand.fabric}"
    said = room.node.machine.fabrics
    loose = [f for f in said or () if not f.attached and (demand.fabric in (f.name, ANY_FABRIC))]
    if said is None:
        had, remedy = "nothing said of its fabrics", "its agent were new enough to say its fabrics"
    elif loose:
        had = "; ".join(
            f"{f.name} through {f.adapter}, not attached: {f.problem or 'no reason'}" for f in loose
        )
        remedy = f"{loose[0].adapter} were attached"
    else:
        had = "fabrics: " + ", ".join(sorted(room.fabrics)) if room.fabrics else "no fabric"
        name = "one" if demand.fabric == ANY_FABRIC else demand.fabric
        remedy = f"its agent.yaml named {name} under fabrics, with the adapter that is on it"
    return Verdict(node=room.node.id, rule="fabric", needed=f"{wanted}", had=had, would_fit_if=remedy)


STATE = Filter(rule="state", refuses=_is_not_ready, verdict=_state_verdict, passing=_ready)
POOL = Filter(rule="pool", refuses=_is_of_another_pool, verdict=_pool_verdict, passing=_of_pool)
SELECTOR = Filter(rule="selector", refuses=_lacks_labels, verdict=_selector_verdict, passing=_labelled)
ENGINE = Filter(rule="engine", refuses=_lacks_engine, verdict=_engine_verdict, passing=_with_engine)
AGENT = Filter(rule="agent", refuses=_is_too_old, verdict=_agent_verdict, passing=_new_enough)
FABRIC = Filter(rule="fabric", refuses=_is_off_the_fabric, verdict=_fabric_verdict, passing=_on_fabric)

FILTERS: tuple[Filter, ...] = (
    STATE,
    POOL,
    SELECTOR,
    ENGINE,
    AGENT,
    GPUS,
    GPU_CLASS,
    GPU_MEMORY,
    MEMORY,
    DISK,
    FABRIC,
)
"""In the order they are asked; the first that says no gives the verdict."""


def judge(demand: Demand, room: Room) -> Verdict | None:
    """Ask the filters in their order; the first that says no gives the verdict, None means that it fits."""
    return next((one.verdict(demand, room) for one in FILTERS if one.refuses(demand, room)), None)
