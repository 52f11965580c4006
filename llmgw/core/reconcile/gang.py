"""What the ranks of one replica must know of each other.

Ports come from a range of their own, below the one from which Linux gives a port to whoever asks for any (32768 and
up), so that they meet no engine's HTTP port. Each generation has a block of them: a port that somebody holds fails one
generation, and the next one uses another.
"""

from llmgw.core.fleet.shards import Gang
from llmgw.core.fleet.snapshot import Fleet, Node
from llmgw.core.ids import Generation
from llmgw.core.placement.place import Placed

FIRST_PORT = 21000
BLOCK = 16
"""Ports of one generation: where rank 0 waits, where ranks listen, and what engines derive from the first."""
BLOCKS = 500
_RANK_PORT = 1


def gang_of(placed: Placed, fleet: Fleet, generation: Generation) -> Gang | None:
    """Say what the ranks of a placed replica must know of each other; None when there is only one."""
    if len(placed.seats) < 2:
        return None
    nodes = [fleet.nodes[seat.node] for seat in placed.seats]
    port = first_port(generation)
    return Gang(
        addresses=tuple(node.address for node in nodes),
        port=port,
        fabric=placed.fabric,
        adapters=() if placed.fabric is None else tuple(_adapters(node, placed.fabric) for node in nodes),
        ports=tuple(port + _RANK_PORT for _ in nodes),
    )


def first_port(generation: Generation) -> int:
    """Choose the first port of a generation's block, the same at every asking."""
    return FIRST_PORT + BLOCK * ((generation.epoch * 7 + generation.counter) % BLOCKS)


def _adapters(node: Node, fabric: str) -> str:
    """List a node's adapters to a network, with commas between."""
    attached = (one for one in node.machine.fabrics or () if one.name == fabric and one.attached)
    return ",".join(one.adapter for one in attached)
