"""The agent's own newest lines, kept in memory beside wherever it logs to."""

import contextlib
import logging
import secrets
from collections import deque
from collections.abc import Iterator

from llmgw.agent.logs.lines import Flush
from llmgw.agent.logs.position import Chunk, Position
from llmgw.agent.output import clean_all
from llmgw.core.fleet.logs import MOST_LINES
from llmgw.core.units import MIB
from llmgw.runtime.journal import formatter

MOST_CHARACTERS = 2 * MIB
_OF_OTHERS = tuple(
    f"llmgw.{part}." for part in ("server", "control", "router", "store", "ui", "onboard", "ctl")
)


class Ring(logging.Handler):
    """The newest lines, redacted; filled by any thread that logs, read by any.

    Where a server runs in the same process (`llmgw up`), its lines are left out.
    """

    def __init__(self, most: int = MOST_LINES) -> None:
        super().__init__()
        self.setFormatter(formatter())
        self._run = f"r{secrets.token_hex(8)}"
        self._most = most
        self._lines: deque[str] = deque()
        self._characters = 0
        self._count = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the lines of a record; called with the handler's lock held."""
        if f"{record.name}.".startswith(_OF_OTHERS):
            return
        try:
            text = self.format(record)
        except Exception:  # noqa: BLE001 - a record that cannot be written must not end whoever wrote it
            self.handleError(record)
            return
        for line in clean_all(text.encode(errors="replace").split(b"\n")):
            self._add(line)

    def _add(self, line: str) -> None:
        self._lines.append(line)
        self._characters += len(line)
        self._count += 1
        while len(self._lines) > self._most or self._characters > MOST_CHARACTERS:
            self._characters -= len(self._lines.popleft())

    # a source of logs

    def tail(self, most: int) -> tuple[str, ...]:
        """Give the newest lines."""
        with self._held():
            return tuple(self._lines)[-most:] if most > 0 else ()

    def begin(self, lines: int) -> Position:
        """Give the place that so many of the newest lines follow."""
        with self._held():
            return Position(self._run, self._count - min(lines, len(self._lines)))

    def read(
        self, position: Position | None, *, flush: Flush = Flush.NOTHING, until: Position | None = None
    ) -> Chunk:
        """Read on from a place; None, or one of an earlier agent, begins with the oldest line there is."""
        with self._held():
            first = self._count - len(self._lines)
            known = position is not None and position.run == self._run
            wanted = min(position.offset, self._count) if position is not None and known else first
            start = max(wanted, first)
            end = self._count if until is None or until.run != self._run else min(until.offset, self._count)
            lines = tuple(self._lines)[start - first : max(start, end) - first]
        return Chunk(
            lines=lines,
            position=Position(self._run, start + len(lines)),
            lost_lines=start - wanted,
            gap=position is not None and not known,
            new_run=position is not None and not known,
        )

    @contextlib.contextmanager
    def _held(self) -> Iterator[None]:
        self.acquire()
        try:
            yield
        finally:
            self.release()

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Hear all that this process logs, for as long as the block lasts."""
        root = logging.getLogger()
        root.addHandler(self)
        try:
            yield
        finally:
            root.removeHandler(self)
