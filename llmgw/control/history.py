"""What happened to nodes: the latest of each in memory, and all of it in the store for a while.

Events are noted at once and written later, in batches, so that no frame ever waits for the disk. When the store cannot
be written they wait, up to a bound; what is beyond it is counted and said.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from llmgw.core.errors import LlmgwError
from llmgw.core.fleet.events import NodeEvent
from llmgw.runtime.clock import Clock

log = logging.getLogger(__name__)

LATEST = 200
"""Events of each node that are kept in memory."""
MOST_WAITING = 10_000
BATCH_S = 1.0
TRY_AGAIN_S = 10.0
KEEP = timedelta(days=90)
MOST_KEPT = 200_000
PRUNE_EVERY_S = 3600.0


class HistoryStore(Protocol):
    """Where events are kept."""

    async def add(self, events: Sequence[NodeEvent]) -> None:
        """Keep events, all or none of them."""

    async def prune(self, before: datetime, most: int) -> None:
        """Remove what is older than `before`, and the oldest beyond `most`."""


class NodeHistory:
    """Sole writer of the events of nodes."""

    def __init__(
        self,
        store: HistoryStore,
        clock: Clock,
        *,
        latest: Iterable[NodeEvent] = (),
        batch_s: float = BATCH_S,
        try_again_s: float = TRY_AGAIN_S,
    ) -> None:
        """Take where events go.

        Args:
            latest: events of earlier starts, oldest first.
            batch_s: how long events gather before they are written, seconds.
            try_again_s: how long to wait when they cannot be written, seconds.
        """
        self._store = store
        self._clock = clock
        self._batch_s = batch_s
        self._try_again_s = try_again_s
        self._latest: dict[str, deque[NodeEvent]] = {}
        self._waiting: deque[NodeEvent] = deque()
        self._dropped = 0
        self._pruned_now: float | None = None
        self._woken = asyncio.Event()
        for event in latest:
            self._remember(event)

    def record(self, event: NodeEvent) -> None:
        """Note an event; it does not wait."""
        self._remember(event)
        if len(self._waiting) >= MOST_WAITING:
            self._waiting.popleft()
            self._dropped += 1
        self._waiting.append(event)
        self._woken.set()

    def of(self, node_id: str) -> tuple[NodeEvent, ...]:
        """Give the latest events of a node, oldest first."""
        return tuple(self._latest.get(node_id, ()))

    def forget(self, node_id: str) -> None:
        """Show a node's events no more; those in the store end with their time."""
        self._latest.pop(node_id, None)

    async def run(self) -> None:
        """Write down what is noted, for ever; cancelling writes the rest first."""
        try:
            while True:
                await self._woken.wait()
                await asyncio.sleep(self._batch_s)
                self._woken.clear()
                if not await self._try():
                    await asyncio.sleep(self._try_again_s)
                    self._woken.set()
        finally:
            await self._try()

    async def write_down(self) -> None:
        """Write what waits, and now and then remove what is old."""
        events = list(self._waiting)
        await self._store.add(events)
        # More may have come while these were written, and the oldest of them may have been dropped.
        for event in events:
            if self._waiting and self._waiting[0] is event:
                self._waiting.popleft()
        now = self._clock.now()
        if self._pruned_now is None or now - self._pruned_now >= PRUNE_EVERY_S:
            self._pruned_now = now
            await self._store.prune(self._clock.at() - KEEP, MOST_KEPT)

    async def _try(self) -> bool:
        if self._dropped:
            log.error("%d events of nodes were not written down: too many waited", self._dropped)
            self._dropped = 0
        try:
            await self.write_down()
        except LlmgwError as error:
            log.error("events of nodes cannot be written down: %s; trying again", error)
            return False
        return True

    def _remember(self, event: NodeEvent) -> None:
        kept = self._latest.get(event.node)
        if kept is None:
            kept = self._latest[event.node] = deque(maxlen=LATEST)
        kept.append(event)
