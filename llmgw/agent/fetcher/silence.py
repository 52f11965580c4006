"""How long no byte has come, over all tries of one download, and when it is too long."""

import asyncio
import logging

from llmgw.agent.fetcher.faults import CannotFetch
from llmgw.core.backoff import doubled
from llmgw.core.units import show_seconds
from llmgw.runtime.clock import Clock

log = logging.getLogger("llmgw.agent.fetcher")

MOST_WAIT_S = 30.0


class Silence:
    """Knows when the last byte came. `trouble` says what went wrong since, for whoever looks."""

    def __init__(self, what: str, clock: Clock, *, limit_s: float, first_wait_s: float) -> None:
        """Begin at once.

        Args:
            what: is fetched, for the log.
            limit_s: after so many seconds without a byte it is over.
            first_wait_s: between a break and the next try; later waits double.
        """
        self.limit_s = limit_s
        self.trouble: str | None = None
        self._what = what
        self._clock = clock
        self._first_wait_s = first_wait_s
        self._last_now = clock.now()
        self._failed = 0

    def heard(self) -> None:
        """Take that something came: all that went wrong before is over."""
        self._last_now = self._clock.now()
        self._failed = 0
        self.trouble = None

    async def wait(self, why: str) -> None:
        """Wait before another try.

        Raises:
            CannotFetch: nothing has come for too long, or would not before the end of the wait.
        """
        wait_s = doubled(self._failed, first_s=self._first_wait_s, most_s=MOST_WAIT_S)
        if self._clock.now() + wait_s - self._last_now >= self.limit_s:
            raise CannotFetch(f"no byte came for {show_seconds(self.limit_s)}: {why}")
        self._failed += 1
        self.trouble = f"{why}; trying again"
        log.warning("%s: %s in %s", self._what, self.trouble, show_seconds(wait_s))
        await asyncio.sleep(wait_s)
