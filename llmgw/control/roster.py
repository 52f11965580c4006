"""Remember which nodes have ever registered, for a starting server to wait for, and what is wanted of them."""

import asyncio
import logging
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Protocol

from llmgw.control.fleet import ObservedFleet
from llmgw.core.errors import LlmgwError
from llmgw.core.fleet.snapshot import NodeState
from llmgw.runtime.clock import Clock

log = logging.getLogger(__name__)

TRY_AGAIN_S = 10.0


class NodeStore(Protocol):
    """Where the ids of nodes are kept."""

    async def known(self) -> frozenset[str]:
        """Read the ids of every node that is remembered."""

    async def remember(self, node_ids: Sequence[str], at: datetime) -> None:
        """Remember nodes, all or none; one that is known already keeps its first time."""

    async def intend(self, node_id: str, intent: NodeState, at: datetime) -> None:
        """Keep what an operator wants of a node."""

    async def forget(self, node_id: str) -> None:
        """Remember a node no more."""


class Roster:
    """Sole writer of the stored nodes; writes new ones down off the path of their frames."""

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

    @property
    def known(self) -> frozenset[str]:
        """The nodes that are remembered."""
        return frozenset(self._known)

    async def intend(self, node_id: str, intent: NodeState) -> None:
        """Keep what an operator wants of a node.

        Raises:
            StoreFailed: it could not be written.
        """
        await self._store.intend(node_id, intent, self._clock.at())
        self._known.add(node_id)

    async def forget(self, node_id: str) -> None:
        """Remember a node no more; one that registers later is new.

        Raises:
            StoreFailed: it could not be written.
        """
        await self._store.forget(node_id)
        self._known.discard(node_id)
        # It may have registered while that was written.
        self._woken.set()

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
        # A new fleet registers within seconds: one transaction for each node would take the disk for much longer.
        new = sorted(self._fleet.value.nodes.keys() - self._known)
        if new:
            await self._store.remember(new, self._clock.at())
            self._known.update(new)
