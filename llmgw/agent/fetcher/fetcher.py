"""All downloads of an agent: one flight a source, however many shards wait for it.

A flight goes on for as long as somebody waits for it. When the last one leaves it ends, and what came stays; the next
who wants it goes on there. Two flights of one source never overlap: each source has one thread for its files, and a
new flight begins when the one before is over.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from llmgw.agent.fetcher.flight import Flight
from llmgw.agent.fetcher.hands import Hands
from llmgw.agent.fetcher.silence import Silence
from llmgw.agent.fetcher.web import Web
from llmgw.agent.weights_cache import WeightsCache
from llmgw.core.fleet.logs import FETCH
from llmgw.core.fleet.weights import Progress, Remote, cache_name, shown_source
from llmgw.runtime.clock import Clock

log = logging.getLogger("llmgw.agent.fetcher")


class Ticket:
    """One who waits for a source. Whoever took it gives it back with `leave`."""

    def __init__(
        self, flight: Flight, outcome: "asyncio.Task[Path | str]", leave: Callable[[], None]
    ) -> None:
        self._flight = flight
        self.outcome = outcome
        self.leave = leave

    @property
    def progress(self) -> Progress:
        """How far the download is."""
        return self._flight.progress

    @property
    def trouble(self) -> str | None:
        """What stands in its way at the moment; None when nothing does."""
        return self._flight.trouble


class Fetcher:
    """Owner of the flights."""

    def __init__(
        self,
        cache: WeightsCache,
        web: Web,
        clock: Clock,
        *,
        silent_s: float,
        retry_s: float,
        ended: Callable[[], None] = lambda: None,
        recording: Callable[[str], AbstractContextManager[object]] = nullcontext,
    ) -> None:
        """Take where weights go and how long a source may be silent.

        Args:
            retry_s: between a break and the next try; later waits double.
            ended: called whenever a flight is over, however it went.
            recording: keeps what is logged while the block lasts, under the name of a log source.
        """
        self.cache = cache
        self._web = web
        self._clock = clock
        self._silent_s = silent_s
        self._retry_s = retry_s
        self._ended = ended
        self._recording = recording
        self._flights: dict[str, tuple[Flight, asyncio.Task[Path | str]]] = {}
        self._hands: dict[str, Hands] = {}
        self._waiting: dict[str, int] = {}

    def join(self, source: Remote, text: str) -> Ticket:
        """Wait for a source with all who wait for it already; `text` is what a catalog calls it."""
        name, shown = cache_name(source) or "", shown_source(text)
        known = self._flights.get(name)
        if known is None or known[1].done() or not self._waiting.get(name):
            known = self._begun(source, name, shown, None if known is None else known[1])
        self._waiting[name] = self._waiting.get(name, 0) + 1
        left = False

        def leave() -> None:
            nonlocal left
            if not left:
                left = True
                self._leave(name)

        return Ticket(*known, leave)

    def fetching(self) -> tuple[str, ...]:
        """Name what is being fetched, by cache names."""
        return tuple(name for name, (_, task) in self._flights.items() if not task.done())

    async def close(self) -> None:
        """End all flights; what came stays."""
        tasks = [task for _, task in self._flights.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._web.close()

    def _begun(
        self, source: Remote, name: str, shown: str, after: "asyncio.Task[Path | str] | None"
    ) -> "tuple[Flight, asyncio.Task[Path | str]]":
        silence = Silence(shown, self._clock, limit_s=self._silent_s, first_wait_s=self._retry_s)
        flight = Flight(
            source, name, shown, cache=self.cache, web=self._web, silence=silence, clock=self._clock
        )
        task = asyncio.create_task(self._flown(flight, after), name=f"fetch {name}")
        self._flights[name] = (flight, task)
        return flight, task

    async def _flown(self, flight: Flight, after: "asyncio.Task[Path | str] | None") -> Path | str:
        if after is not None:
            await asyncio.wait([after])
        hands = self._hands[flight.name] = Hands(after=self._hands.get(flight.name))
        try:
            with self._recording(f"{FETCH}{flight.name}"):
                return await self._run(flight, hands)
        finally:
            hands.rest()
            if self._flights.get(flight.name, (None, None))[0] is flight:
                del self._flights[flight.name]
            self._ended()

    async def _run(self, flight: Flight, hands: Hands) -> Path | str:
        try:
            return await flight.run(hands)
        except Exception:  # the border of an owned task: one download never takes the agent along
            log.exception("fetching %s: internal error", flight.name)
            return "internal error while fetching its weights; the agent's log says more"

    def _leave(self, name: str) -> None:
        left = self._waiting.get(name, 0) - 1
        if left > 0:
            self._waiting[name] = left
            return
        self._waiting.pop(name, None)
        if (known := self._flights.get(name)) is not None and not known[1].done():
            known[1].cancel()
