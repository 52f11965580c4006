"""A fetcher with a cache of its own, and what a test asks of it."""

import asyncio
from pathlib import Path
from typing import Self

from llmgw.agent.fetcher.fetcher import Fetcher, Ticket
from llmgw.agent.fetcher.web import Web
from llmgw.agent.weights_cache import WeightsCache
from llmgw.core.fleet.weights import LocalFile, cache_name_of, read_source
from llmgw.runtime.clock import SystemClock


class SmallFetcher:
    """Gives up after a second without a byte, and tries again at once."""

    def __init__(self, folder: Path, *, hub: str = "http://127.0.0.1:9", token: str | None = None) -> None:
        self.cache = WeightsCache(folder)
        self.hub = hub
        self.token = token
        self.silent_s = 1.0
        folder.mkdir(parents=True, exist_ok=True)

    async def __aenter__(self) -> Self:
        web = Web(hub=self.hub, token=lambda: self.token, silent_s=self.silent_s / 5)
        self.fetcher = Fetcher(self.cache, web, SystemClock(), silent_s=self.silent_s, retry_s=0.01)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.fetcher.close()

    def join(self, text: str) -> Ticket:
        source = read_source(text)
        assert not isinstance(source, str | LocalFile), source
        return self.fetcher.join(source, text)

    async def fetched(self, text: str, within_s: float = 20.0) -> Path | str:
        """Wait for a source to the end."""
        ticket = self.join(text)
        try:
            async with asyncio.timeout(within_s):
                return await asyncio.shield(ticket.outcome)
        finally:
            ticket.leave()

    def place(self, text: str) -> Path:
        return self.cache.place(cache_name_of(text) or "")

    def names(self) -> list[str]:
        """Name all that lies in the cache."""
        return sorted(path.name for path in self.cache.folder.iterdir())
