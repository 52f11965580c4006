"""Cut what was read of an output into lines, so that reading on from where it stopped loses and repeats nothing.

1. A line is given when its end is there. Until then it waits in the file, unless the caller flushes it.
2. A line that grows past LONGEST_WAITING is given as far as a line may be shown, the cut marked, and its rest is
   skipped.
3. Flushing UPDATES gives a progress bar as it stands; ALL gives whatever is there. What comes later of that line is
   then a line of its own.
"""

from enum import Enum

import msgspec

from llmgw.agent.output import clean_all

LONGEST_WAITING = 64 * 1024


class Flush(Enum):
    """What becomes of a line without an end."""

    NOTHING = 0
    UPDATES = 1
    ALL = 2


class Split(msgspec.Struct, frozen=True):
    """Lines, and how many bytes they took.

    Attributes:
        used: bytes up to where to go on.
        skipping: what follows there is the rest of a line that was cut.
    """

    lines: tuple[str, ...]
    used: int
    skipping: bool


def split(data: bytes, *, skipping: bool = False, flush: Flush = Flush.NOTHING, most: int = 2000) -> Split:
    """Cut the beginning of `data` into at most `most` lines; empty ones are left out."""
    raws: list[bytes] = []
    used = 0
    while len(raws) < most and (end := data.find(b"\n", used)) >= 0:
        if not skipping:
            raws.append(data[used:end])
        used, skipping = end + 1, False
    rest = data[used:] if len(raws) < most else b""
    if skipping:
        return Split(clean_all(raws), used + len(rest), True)
    if len(rest) > LONGEST_WAITING:
        return Split(clean_all([*raws, rest]), used + len(rest), True)
    taken = _flushed(rest, flush)
    return Split(clean_all([*raws, rest[:taken]]), used + taken, False)


def _flushed(rest: bytes, flush: Flush) -> int:
    """Count the bytes of a line without an end that are given all the same."""
    if flush is Flush.ALL:
        return len(rest)
    return rest.rfind(b"\r") + 1 if flush is Flush.UPDATES else 0
