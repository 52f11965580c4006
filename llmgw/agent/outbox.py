"""Frames that wait for the connection: bounded, the newest news first to be kept.

Answers go before news, news before the heartbeat, and all of it before replies, which may be long: a log is never the
reason that a sign of life comes late. Reports of one shard are kept in their order until there are too
many in all; then only the latest of each shard is. One that only says how far a download is takes the place of the one
before it. There is one heartbeat at most: the newest.
"""

import asyncio
from collections import deque

from llmgw.core.fleet.beat import merged
from llmgw.core.fleet.shards import ShardState
from llmgw.wire.frames import Ack, Heartbeat, LogLines, LogsReply, Register, ShardStatus, WeightsRemoved

Reply = LogsReply | LogLines | WeightsRemoved

MOST_ANSWERS = 4096
MOST_REPLIES = 512
MOST_REPORTS = 1024


class Outbox:
    """Filled by whoever has something to say, emptied by the sender of the connection."""

    def __init__(self) -> None:
        self._greeted = False
        self._register: Register | None = None
        self._answers: deque[Ack] = deque()
        self._replies: deque[Reply] = deque()
        self._reports: list[ShardStatus] = []
        self._heartbeat: Heartbeat | None = None
        self._filled = asyncio.Event()

    def reopen(self) -> None:
        """Begin a new connection: answers to an earlier one are moot, and only Register goes before the greeting."""
        self._greeted = False
        self._answers.clear()
        self._replies.clear()

    def greeted(self) -> None:
        """Let everything go: the server has answered Register."""
        self._greeted = True
        self._filled.set()

    def register(self, frame: Register) -> None:
        """Say everything anew: reports and a heartbeat that wait are part of it."""
        self._register = frame
        self._reports.clear()
        self._heartbeat = None
        self._filled.set()

    def answer(self, frame: Ack) -> bool:
        """Take an answer; False when there are too many and it was dropped."""
        if len(self._answers) >= MOST_ANSWERS:
            return False
        self._answers.append(frame)
        self._filled.set()
        return True

    def reply(self, frame: Reply) -> bool:
        """Take a reply to a request; False when there are too many and it was dropped."""
        if len(self._replies) >= MOST_REPLIES:
            return False
        self._replies.append(frame)
        self._filled.set()
        return True

    def report(self, frame: ShardStatus) -> None:
        """Take a transition of a shard, or how far the download is that it waits for."""
        earlier = next(
            (at for at in reversed(range(len(self._reports))) if _is_of(self._reports[at], frame)), None
        )
        if earlier is not None and _is_going(self._reports[earlier].state, frame.state):
            self._reports[earlier] = frame
        else:
            self._reports.append(frame)
        if len(self._reports) > MOST_REPORTS:
            self._reports = _latest(self._reports)
        self._filled.set()

    def beat(self, frame: Heartbeat) -> None:
        """Take a heartbeat in the place of one that still waits; what only that one said stays said."""
        self._heartbeat = frame if self._heartbeat is None else merged(self._heartbeat, frame)
        self._filled.set()

    async def next(self) -> Register | Ack | ShardStatus | Heartbeat | Reply:
        """Take the next frame out, waiting for one; cancelling loses none."""
        while (frame := self._pop()) is None:
            self._filled.clear()
            await self._filled.wait()
        return frame

    def _pop(self) -> Register | Ack | ShardStatus | Heartbeat | Reply | None:
        register, self._register = self._register, None
        if register is not None or not self._greeted:
            return register
        if self._answers:
            return self._answers.popleft()
        if self._reports:
            return self._reports.pop(0)
        heartbeat, self._heartbeat = self._heartbeat, None
        if heartbeat is None and self._replies:
            return self._replies.popleft()
        return heartbeat


def _is_of(earlier: ShardStatus, later: ShardStatus) -> bool:
    return earlier.state.shard == later.state.shard


def _is_going(earlier: ShardState, later: ShardState) -> bool:
    """Tell whether the later one is the same step of the same download, further on."""
    same = (earlier.generation, earlier.phase) == (later.generation, later.phase)
    return same and earlier.progress is not None and later.progress is not None


def _latest(reports: list[ShardStatus]) -> list[ShardStatus]:
    by_shard: dict[str, ShardStatus] = {}
    for report in reports:
        by_shard.pop(report.state.shard, None)
        by_shard[report.state.shard] = report
    return list(by_shard.values())
