"""Streams of agents as whoever follows logs sees them: notes what is asked, and gives what a test lets agents say."""

import asyncio
from typing import Any, NamedTuple

from llmgw.control.pairing import Declined, Gone, NoAnswer, NoStream
from llmgw.wire.frames import LogsReply


class Asked(NamedTuple):
    """One follow that was asked for."""

    node: str
    id: int
    source: str
    cursor: str | None
    until: str | None
    lines: int


class FakeStreams:
    """Every node has a stream unless it is named in `away`."""

    def __init__(self) -> None:
        self.away: set[str] = set()
        self.asked: list[Asked] = []
        self.taken: list[tuple[int, int]] = []
        self.stopped: list[int] = []
        self.reply: LogsReply | NoStream | NoAnswer | Gone | Declined = NoStream("nobody is here")
        self.requests: list[tuple[str, str, int]] = []
        self._news = asyncio.Event()

    async def ask_for_logs(
        self, node_id: str, source: str, lines: int
    ) -> LogsReply | NoStream | NoAnswer | Gone | Declined:
        self.requests.append((node_id, source, lines))
        return self.reply

    def follow(
        self, node_id: str, follow_id: int, source: str, *, cursor: str | None, until: str | None, lines: int
    ) -> bool:
        if node_id in self.away:
            return False
        self.asked.append(Asked(node_id, follow_id, source, cursor, until, lines))
        self._news.set()
        return True

    def take_more(self, node_id: str, follow_id: int, number: int) -> None:
        self.taken.append((follow_id, number))

    def stop_follow(self, node_id: str, follow_id: int) -> None:
        self.stopped.append(follow_id)

    async def next_asked(self, count: int) -> Asked:
        """Wait until so many follows were asked for; return the last of them."""
        async with asyncio.timeout(10):
            while len(self.asked) < count:
                self._news.clear()
                await self._news.wait()
        return self.asked[count - 1]


async def taking(events: Any, count: int) -> list[Any]:
    """Take so many events of a viewer."""
    async with asyncio.timeout(10):
        return [await anext(events) for _ in range(count)]
