"""One follow: where it is, what it may send, and the next piece of it."""

from msgspec.structs import replace

from llmgw.agent.logs.lines import Flush
from llmgw.agent.logs.position import Chunk, Position, read_position
from llmgw.agent.logs.sources import Source, Sources
from llmgw.wire.frames import FollowLogs, LogLines

QUIET_S = 1.0
"""A line without an end that has not grown for so long is shown as it is."""
UPDATES_S = 2.0
"""A progress bar is shown as it stands this often."""
LOOK_AGAIN_S = 5.0
"""So often it is looked whether the node has other sources by now."""
MOST_WINDOW = 8


class Following:
    """A follow that the server asked for. `look` runs in a thread, the rest in the loop; never both at once."""

    def __init__(self, frame: FollowLogs, sources: Sources, now: float) -> None:
        self.id = frame.follow_id
        self._sources = sources
        self._name = frame.source
        self._lines = frame.lines
        self._window = max(1, min(frame.window, MOST_WINDOW))
        self._position = None if frame.cursor is None else read_position(frame.cursor)
        self._foreign = frame.cursor is not None and self._position is None
        self._until = None if frame.until is None else read_position(frame.until)
        self._until_text = frame.until
        self._sent = 0
        self._taken = 0
        self._began = False
        self._said: tuple[str, ...] = ()
        self._said_now = now
        self._was_live = False
        self._pending: tuple[int, float, float] = (0, now, now)

    @property
    def may_send(self) -> bool:
        """Tell whether another piece may be under way."""
        return self._sent - self._taken < self._window

    def taken(self, number: int) -> None:
        """Hear that the pieces up to a number were taken."""
        self._taken = max(self._taken, min(number, self._sent))

    def look(self, now: float) -> LogLines | None:
        """Read what came; None when there is nothing to say.

        Raises:
            OSError: the log cannot be read.
        """
        source = self._sources.find(self._name)
        if isinstance(source, str):
            return self._piece(self._end(source), now)
        chunk = self._chunk(source, now)
        if self._is_over(chunk):
            chunk = replace(chunk, ended=True)
        said_something = chunk.lines or chunk.ended or chunk.lost_lines or chunk.lost_bytes or chunk.gap
        moved = chunk.position is not None and chunk.position != self._position
        self._position = chunk.position
        newly_live = chunk.live and not self._was_live
        self._was_live = chunk.live
        self._note_pending(chunk, now)
        if said_something or newly_live or not self._began or moved or self._has_new_sources(now):
            return self._piece(chunk, now)
        return None

    def failed(self, why: str, now: float) -> LogLines:
        """Make the piece that ends this follow."""
        return self._piece(self._end(why), now)

    def _chunk(self, source: Source, now: float) -> Chunk:
        if not self._began and self._position is None:
            begun = source.begin(self._lines)
            if begun is None:
                return Chunk()
            chunk = source.read(begun, until=self._until)
            return replace(chunk, gap=True) if self._foreign else chunk
        chunk = source.read(self._position, until=self._until)
        flush = self._flush(chunk, now)
        # Only a line that has not got its end meanwhile is shown without one.
        return (
            chunk if flush is Flush.NOTHING else source.read(self._position, flush=flush, until=self._until)
        )

    def _is_over(self, chunk: Chunk) -> bool:
        if self._until is None or chunk.position is None:
            return False
        reached = chunk.position.run == self._until.run and chunk.position.offset >= self._until.offset
        return reached or chunk.live

    def _flush(self, chunk: Chunk, now: float) -> Flush:
        count, grew_now, since_now = self._pending
        if not count or not chunk.pending_bytes or chunk.lines:
            return Flush.NOTHING
        if chunk.pending_bytes == count and now - grew_now >= QUIET_S:
            return Flush.ALL
        return Flush.UPDATES if now - since_now >= UPDATES_S else Flush.NOTHING

    def _note_pending(self, chunk: Chunk, now: float) -> None:
        count, grew_now, since_now = self._pending
        if chunk.pending_bytes == 0 or chunk.lines:
            self._pending = (chunk.pending_bytes, now, now)
        elif chunk.pending_bytes != count:
            self._pending = (chunk.pending_bytes, now, since_now if count else now)
        else:
            self._pending = (count, grew_now, since_now)

    def _has_new_sources(self, now: float) -> bool:
        if now - self._said_now < LOOK_AGAIN_S:
            return False
        self._said_now = now
        return self._sources.names() != self._said

    def _end(self, why: str) -> Chunk:
        return Chunk(position=self._position, ended=True, error=why)

    def _piece(self, chunk: Chunk, now: float) -> LogLines:
        names = None
        if not self._began or chunk.error is not None or self._said_now == now:
            names = self._said = self._sources.names()
            self._said_now = now
        self._began = True
        self._sent += 1
        return LogLines(
            follow_id=self.id,
            number=self._sent,
            lines=chunk.lines,
            cursor=self._cursor(chunk.position),
            lost_lines=chunk.lost_lines,
            lost_bytes=chunk.lost_bytes,
            gap=chunk.gap,
            new_run=chunk.new_run,
            live=chunk.live,
            ended=chunk.ended,
            error=chunk.error,
            sources=names,
        )

    def _cursor(self, position: Position | None) -> str | None:
        if position is None:
            return None
        until = self._until
        if until is not None and (until.run, until.offset) == (position.run, position.offset):
            # What follows there is told by the follow that this one leads up to.
            return self._until_text
        return str(position)
