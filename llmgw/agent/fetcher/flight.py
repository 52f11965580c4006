"""One source from where it is into the cache, and all that is known of it meanwhile."""

import asyncio
import logging
from pathlib import Path

from llmgw.agent.fetcher.disk import Disk
from llmgw.agent.fetcher.download import Download, Tools
from llmgw.agent.fetcher.faults import Broken, CannotFetch
from llmgw.agent.fetcher.hands import Hands
from llmgw.agent.fetcher.meter import Meter
from llmgw.agent.fetcher.origin import Wanted, look_up
from llmgw.agent.fetcher.silence import Silence
from llmgw.agent.fetcher.staging import Staging
from llmgw.agent.fetcher.web import Web
from llmgw.agent.weights_cache import WeightsCache
from llmgw.core.fleet.weights import Progress, Remote
from llmgw.core.units import show_bytes
from llmgw.runtime.clock import Clock

log = logging.getLogger("llmgw.agent.fetcher")

LOOK_AGAIN_S = 1.0
"""Between two looks at a lock that another process has."""


class Flight:
    """Fetches one source. `run` is awaited once; cancelling it leaves what came for the next flight."""

    def __init__(
        self,
        source: Remote,
        name: str,
        shown: str,
        *,
        cache: WeightsCache,
        web: Web,
        silence: Silence,
        clock: Clock,
    ) -> None:
        """Take what to fetch.

        Args:
            name: its name in the cache.
            shown: the source for people.
        """
        self.name = name
        self._source = source
        self._shown = shown
        self._cache = cache
        self._web = web
        self._silence = silence
        self._clock = clock
        self._meter = Meter(name, clock)
        self._waits: str | None = None

    @property
    def progress(self) -> Progress:
        """How far it is."""
        return self._meter.progress()

    @property
    def trouble(self) -> str | None:
        """What stands in its way at the moment, though it goes on trying."""
        return self._waits or self._silence.trouble

    async def run(self, hands: Hands) -> Path | str:
        """Fetch it; returns where it is, or why it cannot be had.

        Args:
            hands: the thread in which all that is done to this name's files is done.
        """
        disk = Disk(hands, self._cache.folder, f"weights {self._shown}")
        staging = Staging(self._cache, self.name, self._shown)
        try:
            while True:
                if (found := await disk.do(lambda: self._cache.find(self.name))) is not None:
                    log.info("%s is at %s already", self._shown, found)
                    return found
                try:
                    if await disk.do(staging.lock):
                        return await self._fetched(staging, disk)
                finally:
                    # Also when it was cancelled before the answer came: the lock may be taken all the same.
                    disk.post(staging.leave)
                self._await_other()
                await asyncio.sleep(LOOK_AGAIN_S)
        except CannotFetch as error:
            log.error("%s cannot be fetched: %s", self._shown, error)
            return str(error)
        except asyncio.CancelledError:
            log.info(
                "%s: ended at %s, for nobody waits for it now; what came stays", self._shown, self.progress
            )
            raise

    def _await_other(self) -> None:
        if self._waits is None:
            self._waits = f"another process fetches it into {self._cache.folder}"
            log.info("%s: %s; waits for that", self._shown, self._waits)

    async def _fetched(self, staging: Staging, disk: Disk) -> Path:
        self._waits = None
        self._silence.heard()
        await disk.do(staging.open)
        if await disk.do(staging.is_moving):
            # Its predecessor died while it moved whole files; should one have been lost, it is fetched anew.
            await disk.do(lambda: staging.finish(None))
            if (found := await disk.do(lambda: self._cache.find(self.name))) is not None:
                return found
            raise CannotFetch(
                f"weights {self._shown}: what had been fetched of it was not whole; the next try is anew"
            )
        log.info("%s: looks up what it consists of", self._shown)
        wanted = await self._looked_up()
        log.info("%s: its source says %s", self._shown, _listed(wanted))
        await self._take_room(wanted, staging, disk)
        log.info("fetches %s into %s: %s", self._shown, self._cache.place(self.name), self.progress)
        tools = Tools(self._web, staging, disk, self._meter, self._silence, self._clock)
        for one in wanted:
            await Download(one, self._named(one), tools).run()
        size = self._meter.progress().done_bytes
        path = await disk.do(lambda: staging.finish(size))
        log.info("fetched %s, %s, to %s", self._shown, show_bytes(size), path)
        return path

    def _named(self, one: Wanted) -> str:
        return f"weights {self._shown}" if one.name == self.name else f"weights {self._shown} ({one.name})"

    async def _looked_up(self) -> tuple[Wanted, ...]:
        while True:
            try:
                wanted = await look_up(self._source, self._web, f"weights {self._shown}")
            except Broken as error:
                await self._silence.wait(str(error))
            else:
                self._silence.heard()
                return wanted

    async def _take_room(self, wanted: tuple[Wanted, ...], staging: Staging, disk: Disk) -> None:
        """See that there is room for all of it before the first byte; what is there already needs none."""
        needed = 0
        for one in wanted:
            have = await disk.do(lambda one=one: staging.prepare(one))  # type: ignore[misc]
            self._meter.expect(one.name, one.size)
            self._meter.has(one.name, have)
            needed += max(0, (one.size or 0) - have)
        if problem := await disk.room_problem(needed):
            raise CannotFetch(problem)


def _listed(wanted: tuple[Wanted, ...]) -> str:
    """Say what a source consists of: how much it is, and by what it will be verified."""
    sizes = [one.size for one in wanted]
    known = [size for size in sizes if size is not None]
    size = show_bytes(sum(known)) if len(known) == len(sizes) else "no size"
    hashed = sum(one.digest is not None for one in wanted)
    if len(wanted) == 1:
        return f"{size}, {wanted[0].digest or 'no hash'}"
    return f"{size} in {len(wanted)} files, {hashed} of them with a hash"
