"""A place in a source of logs, and what was read from one on."""

import re
import zlib

import msgspec

ANCHOR_BYTES = 32
"""So many bytes before a place in a file are remembered, as a sum, to tell later whether it is still that place."""

_TEXT = re.compile(r"([a-z0-9-]{1,64}):(\d{1,19}):([0-9a-f]{1,8})(\+?)\Z")


class Position(msgspec.Struct, frozen=True):
    """A place between two lines of a source.

    Attributes:
        run: which file, or which start of an agent; the same name later may be another run.
        offset: bytes before it in the file, or lines before it since the agent started.
        anchor: a sum of the bytes before it; 0 where there are none.
        skipping: it is within a line that was too long to be shown whole, and the rest of that line is not shown.
    """

    run: str
    offset: int
    anchor: int = 0
    skipping: bool = False

    def __str__(self) -> str:
        return f"{self.run}:{self.offset}:{self.anchor:x}{'+' if self.skipping else ''}"


def read_position(text: str) -> Position | None:
    """Read what `str` of a position wrote; None when it is something else."""
    match = _TEXT.match(text)
    if match is None:
        return None
    return Position(match[1], int(match[2]), int(match[3], 16), bool(match[4]))


def anchor_of(before: bytes) -> int:
    """Sum up the bytes that stand before a place."""
    return zlib.crc32(before[-ANCHOR_BYTES:])


class Chunk(msgspec.Struct, frozen=True, kw_only=True):
    """What was read from a position on.

    Attributes:
        position: where the next line begins; None when there is nothing to read from (yet).
        lost_lines: lines that were there and are not any more.
        lost_bytes: the same of a file.
        gap: something is missing that cannot be counted.
        new_run: the lines are of another run than the position was.
        live: there was nothing more to read.
        pending_bytes: of a line that has no end yet.
        ended: nothing will follow.
        error: why there is nothing, or nothing more.
    """

    lines: tuple[str, ...] = ()
    position: Position | None = None
    lost_lines: int = 0
    lost_bytes: int = 0
    gap: bool = False
    new_run: bool = False
    live: bool = True
    pending_bytes: int = 0
    ended: bool = False
    error: str | None = None
