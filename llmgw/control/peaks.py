"""Measured peaks of memory: noted from what nodes say, kept in the store, and told to placement.

What nodes say is looked through now and then, so that neither a heartbeat nor a request ever waits for the disk.
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import Protocol

from llmgw.control.fleet import ObservedFleet
from llmgw.core.errors import LlmgwError
from llmgw.core.fleet.peaks import Key, Peak, grown
from llmgw.core.units import show_bytes
from llmgw.runtime.clock import Clock

log = logging.getLogger(__name__)

EVERY_S = 10.0


class PeakStore(Protocol):
    """Where peaks are kept."""

    async def keep(self, found: Sequence[Peak]) -> None:
        """Keep peaks, all or none of them."""


class Peaks:
    """Sole writer of measured peaks; `run` must run for them to grow."""

    def __init__(
        self,
        store: PeakStore,
        fleet: ObservedFleet,
        *,
        clock: Clock,
        known: Iterable[Peak] = (),
        every_s: float = EVERY_S,
    ) -> None:
        """Take where peaks come from and go to.

        Args:
            known: peaks of earlier starts.
            every_s: seconds between two looks at the fleet.
        """
        self._store = store
        self._fleet = fleet
        self._clock = clock
        self._every_s = every_s
        self._known: dict[Key, Peak] = {}
        self._of: dict[str, dict[str, int]] = {}
        for peak in known:
            self._take(peak)
        self._unkept: dict[Key, Peak] = {}

    def of(self, fingerprint: str, engine_version: str | None = None) -> int | None:
        """Return the peak, in bytes, of a profile with one version of its engine, or with any; None without one."""
        by_version = self._of.get(fingerprint, {})
        return (
            max(by_version.values(), default=None)
            if engine_version is None
            else by_version.get(engine_version)
        )

    async def run(self) -> None:
        """Look at the fleet again and again; cancelling writes down what is not yet."""
        try:
            while True:
                await asyncio.sleep(self._every_s)
                await self.look()
        finally:
            await self.look()

    async def look(self) -> None:
        """Note what has grown and write it down; what cannot be written counts at once and is written later."""
        for peak in grown(self._known, self._fleet.value, self._clock.at()):
            self._take(peak)
            self._unkept[peak.key] = peak
            engine = f"{peak.engine} {peak.version}".strip()
            log.info("model %s: %s held %s of memory", peak.model, engine, show_bytes(peak.peak_bytes))
        if not self._unkept:
            return
        waiting = dict(self._unkept)
        try:
            await self._store.keep(tuple(waiting.values()))
        except LlmgwError as error:
            log.error("peaks of memory cannot be written down: %s; trying again", error)
            return
        self._unkept = {key: peak for key, peak in self._unkept.items() if waiting.get(key) is not peak}

    def _take(self, peak: Peak) -> None:
        self._known[peak.key] = peak
        self._of.setdefault(peak.fingerprint, {})[peak.version] = peak.peak_bytes
