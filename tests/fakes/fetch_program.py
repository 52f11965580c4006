"""Fetches one source into a cache: `python fetch_program.py CACHE HUB SOURCE`; says where, and ends with 0."""

import asyncio
import sys
from pathlib import Path

from llmgw.agent.fetcher.fetcher import Fetcher
from llmgw.agent.fetcher.web import Web
from llmgw.agent.weights_cache import WeightsCache
from llmgw.core.fleet.weights import LocalFile, read_source
from llmgw.runtime.clock import SystemClock


async def main(cache: str, hub: str, text: str) -> int:
    web = Web(hub=hub, token=lambda: None, silent_s=2.0)
    fetcher = Fetcher(WeightsCache(Path(cache)), web, SystemClock(), silent_s=10.0, retry_s=0.05)
    source = read_source(text)
    assert not isinstance(source, str | LocalFile)
    found = await fetcher.join(source, text).outcome
    await fetcher.close()
    print(found)
    return 0 if isinstance(found, Path) else 1


sys.exit(asyncio.run(main(*sys.argv[1:])))
