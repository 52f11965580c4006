"""Logs of a node: what a source is called, the newest lines of one, and the pieces of one that is followed."""

import re

import msgspec

from llmgw.core.units import KIB, show_bytes

AGENT = "agent"
"""The source every node has: its agent's own lines."""
CRASH = "@crash"
"""Behind the id of a shard: the output of the first crash of its crash loop."""
INSTALL, FETCH = "install:", "fetch:"
"""Before the name of an engine, and before the cache name of weights: what installing and downloading said."""

_CURSOR = re.compile(r"[A-Za-z0-9:+-]{1,128}\Z")

MOST_LINES = 2000
DEFAULT_LINES = 300


class LogTail(msgspec.Struct, frozen=True, kw_only=True):
    """The newest lines of one source.

    Attributes:
        sources: all that the node can show; never empty.
        error: why there is nothing to show, in the node's words; None when there is.
        left_out: older lines that were wanted and had no room in one answer.
    """

    lines: tuple[str, ...] = ()
    sources: tuple[str, ...] = (AGENT,)
    error: str | None = None
    left_out: int = 0


class LogPiece(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Lines of a source that is followed, and where the next begin.

    Attributes:
        cursor: where the next line begins; opaque. None when there is nothing to go on from.
        lost_lines: how many lines before these were overwritten before anybody read them.
        lost_bytes: the same of a file, whose lines cannot be counted any more.
        gap: something before these is missing that cannot be counted.
        new_run: these are the first lines of another run of what writes them.
        live: the last of these lines was the newest when it was read.
        ended: nothing will follow.
        error: why there is nothing, or nothing more; then `ended` holds too.
        sources: all that the node can show, in the first piece and whenever they changed; None when not said.
    """

    lines: tuple[str, ...] = ()
    cursor: str | None = None
    lost_lines: int = 0
    lost_bytes: int = 0
    gap: bool = False
    new_run: bool = False
    live: bool = False
    ended: bool = False
    error: str | None = None
    sources: tuple[str, ...] | None = None


def is_source(source: str) -> bool:
    """Tell whether this can name a source at all, before a node is asked about it."""
    return 0 < len(source) <= 200 and source.isprintable()


def is_cursor(text: str) -> bool:
    """Tell whether this looks like a cursor; what one means only the node that made it knows."""
    return _CURSOR.match(text) is not None


class LogEvent(msgspec.Struct, frozen=True, kw_only=True):
    """What a viewer of a followed source is told: lines, or that something about the stream changed.

    Attributes:
        cursor: where to go on after this event, also after restarts; None when this one does not move.
        marker: what is to be shown before the lines, because something is missing there; None when nothing is.
        note: how the stream itself is, such as that the node is away for now; None when there is nothing to say.
        ended: this is the last event.
        error: why it is, when it should not be.
        sources: all that the node can show; None when not said.
    """

    lines: tuple[str, ...] = ()
    cursor: str | None = None
    marker: str | None = None
    note: str | None = None
    ended: bool = False
    error: str | None = None
    sources: tuple[str, ...] | None = None


def event_of(piece: LogPiece, newest: int | None = None) -> LogEvent:
    """Say to a viewer what a piece says; only its `newest` lines where that is given."""
    is_whole = newest is None or newest >= len(piece.lines)
    lines = piece.lines if is_whole else piece.lines[len(piece.lines) - (newest or 0) :]
    return LogEvent(
        lines=lines,
        cursor=piece.cursor,
        marker=missing_words(piece) if is_whole else None,
        ended=piece.ended,
        error=piece.error,
        sources=piece.sources,
    )


def missing_words(piece: LogPiece) -> str | None:
    """Say what is missing before the lines of a piece, and that another run begins there; None when nothing is."""
    said = []
    if piece.lost_lines:
        said.append(f"{piece.lost_lines} lines were overwritten before they could be shown")
    if piece.lost_bytes:
        size, unit = (
            show_bytes(piece.lost_bytes),
            "" if piece.lost_bytes < KIB else f" ({piece.lost_bytes} bytes)",
        )
        said.append(f"{size}{unit} were overwritten before they could be shown")
    if piece.gap:
        said.append("some lines are gone, and nobody counted them")
    if piece.new_run:
        said.append("a new run begins")
    return "; ".join(said) or None


def too_slow_words(lines: int) -> str:
    """Say to a viewer that it did not keep up."""
    return f"{lines} lines are left out here, because this viewer did not keep up"
