"""The weights of the fleet as the surfaces ask for them: what lies where, and removing what nobody wants.

1. Every node is told which sources the catalog names, when it connects and whenever that changes, so that it can say
   what it has of them.
2. Two look before anything is removed: this module asks only for what a cache holds and no model wants, and the node
   asked decides by what it finds on its disk at that moment.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Protocol

from llmgw.control.desired import Desired
from llmgw.control.fleet import ObservedFleet
from llmgw.control.pairing import Declined, Gone, NoAnswer, NoStream
from llmgw.core.fleet.collect import Collected, Stock, asked_for, stocks, wanted_sources
from llmgw.core.fleet.snapshot import NodeState

log = logging.getLogger(__name__)

_SILENT = frozenset({NodeState.UNREACHABLE, NodeState.LOST})


class Reply(Protocol):
    """What a node answers."""

    @property
    def removed(self) -> tuple[str, ...]:
        """What it removed."""

    @property
    def freed_bytes(self) -> int:
        """Of all that it removed."""

    @property
    def refused(self) -> Mapping[str, str]:
        """Why, by each name that it did not remove."""


class Agents(Protocol):
    """The streams of agents, as this module uses them."""

    def look_for(self, sources: tuple[str, ...]) -> None:
        """Tell every node, and each that connects later, which sources the catalog names."""

    async def ask_to_remove(
        self, node_id: str, names: tuple[str, ...]
    ) -> Reply | NoStream | NoAnswer | Gone | Declined:
        """Ask a node to remove cache-named files of its weights cache."""


class Weights:
    """What an admin asks of the fleet's weights. Keeps nothing: all of it is in the catalog and with the nodes."""

    def __init__(self, agents: Agents, desired: Desired, fleet: ObservedFleet) -> None:
        self._agents = agents
        self._desired = desired
        self._fleet = fleet
        desired.listen(self._tell)
        self._tell()

    def stocks(self) -> tuple[Stock, ...]:
        """List all weights of the fleet, each place once."""
        return stocks(self._desired.catalog, self._fleet.value)

    async def collect(
        self, names: tuple[str, ...] = (), nodes: tuple[str, ...] = ()
    ) -> tuple[Collected, ...]:
        """Have removed what nobody wants; at most 10 s pass.

        Args:
            names: ask for these alone; what is wanted of them is refused here. Empty asks for all that nobody wants.
            nodes: ask these alone; empty asks all.

        Returns:
            What became of it, a node at a time; every node that was to be asked is there.
        """
        fleet = self._fleet.value.nodes
        connected = {name for name, node in fleet.items() if node.state not in _SILENT}
        asked, refused = asked_for(self.stocks(), connected, names, nodes)
        answers = await asyncio.gather(*(self._asked(node, asked[node]) for node in sorted(asked)))
        return (*refused, *answers)

    async def _asked(self, node: str, names: tuple[str, ...]) -> Collected:
        reply = await self._agents.ask_to_remove(node, names)
        if isinstance(reply, NoStream | NoAnswer | Gone | Declined):
            log.warning("weights of %s: %s", node, reply.reason)
            return Collected(node=node, error=reply.reason)
        log.info("weights of %s: %d removed, %d refused", node, len(reply.removed), len(reply.refused))
        return Collected(
            node=node, removed=reply.removed, freed_bytes=reply.freed_bytes, refused=dict(reply.refused)
        )

    def _tell(self) -> None:
        self._agents.look_for(wanted_sources(self._desired.catalog))
