"""The logs of nodes as a surface sees them: tails that were set, and follows whose events a test gives."""

import asyncio
from collections.abc import AsyncIterator

from llmgw.core.fleet.logs import LogEvent, LogTail


class FakeLogs:
    """Notes what it is asked; `following` counts the viewers that have not left."""

    def __init__(self) -> None:
        self.tails: dict[str, LogTail] = {}
        self.events: asyncio.Queue[LogEvent] = asyncio.Queue()
        self.asked: list[tuple[str, str, int, str | None]] = []
        self.following = 0

    async def tail(self, node_id: str, source: str, lines: int) -> LogTail:
        self.asked.append((node_id, source, lines, None))
        others = [name for name in self.tails if name != "agent"]
        error = f"no log source {source!r} on this node; it has: {', '.join(['agent', *others])}"
        missing = LogTail(sources=("agent", *others), error=error)
        return self.tails.get(source, missing)

    async def follow(
        self, node_id: str, source: str, lines: int, cursor: str | None = None
    ) -> AsyncIterator[LogEvent]:
        self.asked.append((node_id, source, lines, cursor))
        self.following += 1
        try:
            while True:
                event = await self.events.get()
                yield event
                if event.ended:
                    return
        finally:
            self.following -= 1
