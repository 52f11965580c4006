"""Sources of logs that somebody follows: asked for once at the agent, whoever looks.

Rules:

1. One follow at the agent for each source of a node, however many viewers; it begins with the first viewer and is
   stopped when the last one leaves.
2. Pieces are kept as they come, the newest KEPT_LINES lines of them, once for all viewers. A viewer is a place among
   them, so a slow one costs nothing and holds up nobody: when its place is gone it is told how many lines it missed.
3. A viewer that comes with a cursor goes on right there. Where that is none of the kept pieces' own, a follow for this
   viewer alone brings what lies between, up to a piece that is kept, and ends.
4. A stream that ended is waited for, and the follow goes on from its last cursor over the next one. An agent that has a
   stream and sends nothing within FIRST_LIMIT_S ends the follow: it is too old, or stuck.
5. When the server ends, viewers are told so and simply hear no more: the source has not ended, and whoever asks the
   next server with the last cursor goes on.
"""

import asyncio
import itertools
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterator
from typing import Protocol

import msgspec

from llmgw.core.fleet.logs import (
    MOST_LINES,
    LogEvent,
    LogPiece,
    event_of,
    is_cursor,
    is_source,
    too_slow_words,
)

KEPT_LINES = MOST_LINES
KEPT_CHARACTERS = 4 * 1024**2
FIRST_LIMIT_S = 10.0
_MOST_CATCHES = 20

_ENDING = LogEvent(note="the server is ending; ask again, with the cursor, when it is back")


class Streams(Protocol):
    """What carries follows to agents and their pieces back."""

    def follow(
        self, node_id: str, follow_id: int, source: str, *, cursor: str | None, until: str | None, lines: int
    ) -> bool:
        """Begin a follow; False when the node has no stream."""

    def take_more(self, node_id: str, follow_id: int, number: int) -> None:
        """Let more pieces come: the one of this number was taken."""

    def stop_follow(self, node_id: str, follow_id: int) -> None:
        """Have no more sent."""


class _Kept(msgspec.Struct, frozen=True):
    """A piece that is kept.

    Attributes:
        before: the cursor that it begins at; None for the first of a follow.
        lines_before: how many lines of this source came before it.
    """

    before: str | None
    lines_before: int
    piece: LogPiece


class _Asked(ABC):
    """One follow at an agent: pieces of the number that it goes by now, over one stream after the other."""

    def __init__(
        self, node_id: str, source: str, *, cursor: str | None = None, until: str | None = None
    ) -> None:
        self.node_id = node_id
        self.source = source
        self.cursor = cursor
        self.until = until
        self.number: int | None = None
        self.limit: asyncio.TimerHandle | None = None
        self.note: str | None = None
        self.ended = False
        self._changed = asyncio.Event()

    def take(self, piece: LogPiece, number: int = 0) -> None:
        """Take the next piece, which the agent counts as `number`."""
        self.cursor = piece.cursor or self.cursor
        self.ended = self.ended or piece.ended
        self.note = None
        self.keep(piece, number)
        self.wake()

    @abstractmethod
    def keep(self, piece: LogPiece, number: int) -> None:
        """Keep a piece for whoever reads it."""

    def wake(self) -> None:
        """Let all who wait look again."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def changes(self) -> None:
        """Wait for what comes next."""
        await self._changed.wait()


class _Shared(_Asked):
    """What all viewers of a source share: the pieces of its one follow."""

    def __init__(self, node_id: str, source: str) -> None:
        super().__init__(node_id, source)
        self.viewers = 0
        self.is_live = False
        self.error: str | None = None
        self.sources: tuple[str, ...] | None = None
        self.first = 0
        self._kept: deque[_Kept] = deque()
        self._lines = 0
        self._characters = 0

    @property
    def next(self) -> int:
        """Number of the piece that comes next."""
        return self.first + len(self._kept)

    def keep(self, piece: LogPiece, _number: int) -> None:
        """Keep a piece, and drop the oldest where there are too many."""
        self.error = piece.error or self.error
        self.sources = piece.sources or self.sources
        before = self._kept[-1].piece.cursor if self._kept else None
        self._kept.append(_Kept(before, self._lines, piece))
        self._lines += len(piece.lines)
        # Of a log that grows faster than it can be read no piece is ever the newest.
        self.is_live = self.is_live or piece.live or piece.ended or self._lines >= KEPT_LINES
        self._characters += _characters(piece)
        while len(self._kept) > 1 and self._is_spare(self._kept[1]):
            self._characters -= _characters(self._kept.popleft().piece)
            self.first += 1

    def _is_spare(self, second: _Kept) -> bool:
        too_many = len(self._kept) > KEPT_LINES or self._characters > KEPT_CHARACTERS
        return too_many or self._lines - second.lines_before >= KEPT_LINES

    def at(self, number: int) -> LogPiece:
        """Give the kept piece of a number."""
        return self._kept[number - self.first].piece

    def place_of(self, cursor: str) -> int | None:
        """Find the number of the piece that begins at a cursor; None when none does."""
        if cursor == self.cursor:
            return self.next
        for number, kept in enumerate(self._kept, self.first):
            if kept.before == cursor:
                return number
        return None

    def newest(self, lines: int) -> LogEvent:
        """Give the newest lines that are kept, as one event."""
        pieces, wanted = deque[LogEvent](), lines
        for kept in reversed(self._kept):
            if wanted <= 0:
                break
            pieces.appendleft(event_of(kept.piece, wanted))
            wanted -= len(kept.piece.lines)
        found = tuple(line for event in pieces for line in event.lines)
        return LogEvent(lines=found, cursor=self.cursor, sources=self.sources)

    def missed(self, number: int, lines_seen: int) -> int:
        """Count the lines between what a viewer saw and the oldest piece that is kept."""
        return max(0, self._kept[0].lines_before - lines_seen) if number < self.first else 0

    def lines_before(self, number: int) -> int:
        """Count the lines of this source that came before the piece of a number."""
        return self._lines if number >= self.next else self._kept[number - self.first].lines_before


class _Catching(_Asked):
    """What one viewer missed, brought for it alone; the agent sends more only when the viewer took some."""

    def __init__(self, node_id: str, source: str, *, cursor: str | None, until: str | None) -> None:
        super().__init__(node_id, source, cursor=cursor, until=until)
        self.pieces: deque[tuple[LogPiece, int | None, int]] = deque()

    def keep(self, piece: LogPiece, number: int) -> None:
        """Keep a piece until the viewer takes it, with what lets the next come."""
        self.pieces.append((piece, self.number, number))


def _characters(piece: LogPiece) -> int:
    return sum(map(len, piece.lines)) + 64


class Follows:
    """Owner of every follow; what comes over the streams is told to it (see `hub.FollowListener`)."""

    def __init__(self, streams: Streams, *, first_limit_s: float = FIRST_LIMIT_S) -> None:
        self._streams = streams
        self._first_limit_s = first_limit_s
        self._numbers = itertools.count(1)
        self._shared: dict[tuple[str, str], _Shared] = {}
        self._asked: dict[int, _Asked] = {}
        self._waiting: set[_Asked] = set()
        self._closed = False

    # what the streams tell

    def connected(self, node_id: str) -> None:
        """Go on with what is followed on a node, over its new stream."""
        for asked in [a for a in self._waiting if a.node_id == node_id]:
            self._ask(asked)

    def disconnected(self, node_id: str) -> None:
        """Wait for the node to come back."""
        for asked in [a for a in self._asked.values() if a.node_id == node_id]:
            self._forget(asked)
            self._wait_for_stream(asked)

    def heard(self, node_id: str, follow_id: int, number: int, piece: LogPiece) -> None:
        """Take a piece; of a follow that nobody knows, have no more sent."""
        asked = self._asked.get(follow_id)
        if asked is None or asked.node_id != node_id:
            self._streams.stop_follow(node_id, follow_id)
            return
        if piece.cursor is not None and not is_cursor(piece.cursor):
            # It would become a line of its own in what viewers are sent.
            piece = msgspec.structs.replace(piece, cursor=None)
        _disarm(asked)
        asked.take(piece, number)
        if asked.ended:
            self._forget(asked)
        elif isinstance(asked, _Shared):
            self._streams.take_more(node_id, follow_id, number)

    def close(self) -> None:
        """End every follow: the server is ending."""
        self._closed = True
        for asked in [*self._asked.values(), *self._waiting, *self._shared.values()]:
            _disarm(asked)
            asked.wake()

    # viewers

    async def follow(
        self, node_id: str, source: str, lines: int, cursor: str | None = None
    ) -> AsyncIterator[LogEvent]:
        """Tell one viewer what comes; closing the iterator ends it. See `Logs.follow`."""
        if not is_source(source):
            yield LogEvent(ended=True, error=f"{source[:60]!r} is no source")
            return
        if cursor is not None and not is_cursor(cursor):
            yield LogEvent(marker=f"{cursor[:60]!r} is no cursor of a log; these are its newest lines")
            cursor = None
        shared = self._joined(node_id, source)
        try:
            async for event in self._viewed(shared, lines, cursor):
                yield event
        finally:
            self._left(shared)

    async def _viewed(self, shared: _Shared, lines: int, cursor: str | None) -> AsyncIterator[LogEvent]:
        noted: str | None = None
        while not self._closed and not shared.is_live:
            if shared.note != noted:
                noted = shared.note
                yield LogEvent(note=noted)
            else:
                await shared.changes()
        # Where this viewer is among the pieces, and how many lines it has behind it: both from before anything is told.
        number, seen = shared.next, shared.lines_before(shared.next)
        if cursor is None:
            begun = shared.newest(lines)
            # Where there is nothing but an error, that is the first to be told.
            if not self._closed and (begun.lines or shared.error is None):
                yield begun
        else:
            async for event in self._caught_up(shared, cursor):
                cursor = event.cursor or cursor
                yield event
            found = shared.place_of(cursor)
            number = shared.next if found is None else found
            seen = shared.lines_before(number)
        async for event in self._live(shared, number, seen, noted):
            yield event

    async def _live(
        self, shared: _Shared, number: int, seen: int, noted: str | None
    ) -> AsyncIterator[LogEvent]:
        """Tell a viewer of every piece from `number` on, before which it has `seen` lines."""
        while not self._closed:
            if number < shared.first:
                yield LogEvent(marker=too_slow_words(shared.missed(number, seen)))
                number = shared.first
                seen = shared.lines_before(number)
            elif number < shared.next:
                piece = shared.at(number)
                number, seen = number + 1, seen + len(piece.lines)
                noted = None
                if not _says_nothing(piece):
                    yield event_of(piece)
                if piece.ended:
                    return
            elif shared.ended:
                yield LogEvent(ended=True, error=shared.error, sources=shared.sources)
                return
            elif shared.note != noted:
                noted = shared.note
                yield LogEvent(note=noted)
            else:
                await shared.changes()
        yield _ENDING

    async def _caught_up(self, shared: _Shared, cursor: str) -> AsyncIterator[LogEvent]:
        """Bring a viewer from its cursor to a piece that is kept."""
        for _ in range(_MOST_CATCHES):
            if self._closed or shared.cursor is None or shared.place_of(cursor) is not None:
                return
            catching = _Catching(shared.node_id, shared.source, cursor=cursor, until=shared.cursor)
            self._ask(catching)
            try:
                async for event in self._caught(catching):
                    cursor = event.cursor or cursor
                    yield event
            finally:
                self._stop(catching)
        yield LogEvent(
            marker="some lines are left out here, because they came faster than they could be read"
        )

    async def _caught(self, catching: _Catching) -> AsyncIterator[LogEvent]:
        while not self._closed:
            if catching.pieces:
                piece, follow_id, number = catching.pieces.popleft()
                if not _says_nothing(piece):
                    # Its end is the end of what was missed, and not of the source.
                    yield msgspec.structs.replace(event_of(piece), ended=False)
                # A piece of an earlier stream lets nothing come over the one there is now.
                if follow_id is not None and follow_id == catching.number:
                    self._streams.take_more(catching.node_id, follow_id, number)
            elif catching.ended:
                return
            else:
                await catching.changes()

    # follows at agents

    def _joined(self, node_id: str, source: str) -> _Shared:
        key = (node_id, source)
        shared = self._shared.get(key)
        if shared is None or shared.ended:
            shared = self._shared[key] = _Shared(node_id, source)
            self._ask(shared)
        shared.viewers += 1
        return shared

    def _left(self, shared: _Shared) -> None:
        shared.viewers -= 1
        if shared.viewers == 0:
            self._stop(shared)
            if self._shared.get((shared.node_id, shared.source)) is shared:
                del self._shared[shared.node_id, shared.source]

    def _ask(self, asked: _Asked) -> None:
        self._waiting.discard(asked)
        number = asked.number = next(self._numbers)
        self._asked[number] = asked
        sent = self._streams.follow(
            asked.node_id, number, asked.source, cursor=asked.cursor, until=asked.until, lines=KEPT_LINES
        )
        if not sent:
            self._forget(asked)
            self._wait_for_stream(asked)
            return
        loop = asyncio.get_running_loop()
        asked.limit = loop.call_later(self._first_limit_s, self._too_late, asked)

    def _wait_for_stream(self, asked: _Asked) -> None:
        self._waiting.add(asked)
        asked.note = f"node {asked.node_id} has no stream to this server; waiting for it"
        asked.wake()

    def _too_late(self, asked: _Asked) -> None:
        self._stop(asked)
        asked.take(
            LogPiece(
                ended=True,
                error=f"the agent of {asked.node_id} did not answer within {self._first_limit_s:g} s; "
                "it may be too old to follow logs, or stuck",
            )
        )

    def _stop(self, asked: _Asked) -> None:
        if asked.number in self._asked:
            self._streams.stop_follow(asked.node_id, asked.number)
        self._forget(asked)
        self._waiting.discard(asked)

    def _forget(self, asked: _Asked) -> None:
        _disarm(asked)
        if asked.number is not None:
            self._asked.pop(asked.number, None)
            asked.number = None


def _disarm(asked: _Asked) -> None:
    if asked.limit is not None:
        asked.limit.cancel()
        asked.limit = None


def _says_nothing(piece: LogPiece) -> bool:
    return not (
        piece.lines
        or piece.ended
        or piece.error
        or piece.sources
        or piece.lost_lines
        or piece.lost_bytes
        or piece.gap
        or piece.new_run
    )
