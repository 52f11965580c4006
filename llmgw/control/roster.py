"""Remember which nodes have ever registered, so that a starting server knows whom to wait for."""

import asyncio
import logging
from collections.abc import Collection
from datetime import datetime
from typing import Protocol

from llmgw.control.fleet import ObservedFleet
from llmgw.core.errors import LlmgwError
from llmgw.runtime.clock import Clock

log = logging.getLogger(__name__)

TRY_AGAIN_S = 10.0


class NodeStore(Protocol):
    """Where the ids of nodes are kept."""

    async def known(self) -> frozenset[str]:
        """Read the ids of every node that is remembered."""

    async def remember(self, node_id: str, at: datetime) -> None:
        """Remember a node; one that is known already keeps its first time."""


class Roster:
    """Writes new nodes down, off the path of their frames."""

    def __init__(
        self,
        store: NodeStore,
        fleet: ObservedFleet,
        *,
        clock: Clock,
        known: Collection[str],
        try_again_s: float = TRY_AGAIN_S,
    ) -> None:
        self._store = store
        self._fleet = fleet
        self._clock = clock
        self._try_again_s = try_again_s
        self._known = set(known)
        self._woken = asyncio.Event()
        fleet.listen(self._woken.set)

    async def run(self) -> None:
        """Write down whoever is new, for ever; what cannot be written is tried again."""
        while True:
            await self._woken.wait()
            self._woken.clear()
            try:
                await self.write_down()
            except LlmgwError as error:
                log.error("new nodes cannot be remembered: %s; trying again", error)
                await asyncio.sleep(self._try_again_s)
                self._woken.set()

    async def write_down(self) -> None:
        """Remember the nodes that are not remembered yet."""
        for node_id in sorted(self._fleet.value.nodes.keys() - self._known):
            await self._store.remember(node_id, self._clock.at())
            self._known.add(node_id)
