"""What the last bytes of an event stream tell: whether it said `data: [DONE]`, and whether an event may follow.

The stream itself is never taken apart: it passes as it came, and only its tail is looked at, so that an engine may
cut its bytes anywhere.

1. A stream is done when a whole line `data: [DONE]` (with or without the space) has passed; LF, CRLF and CR end a line.
   The same characters inside a line, as in a quoted answer, end nothing.
2. An event may follow when the last bytes are a blank line, or nothing has passed yet.
"""

import re

TAIL_BYTES = 24
START = b"\n\n"
"""The tail of a stream of which nothing has passed: as if a blank line stood before it."""

_DONE_LINE = re.compile(rb"[\r\n]data: ?\[DONE\][\r\n]")
_BLANK_LINES = (b"\n\n", b"\r\n\r\n", b"\r\r", b"\n\r\n", b"\r\n\n")


def says_done(tail: bytes, passed: bytes) -> bool:
    """Tell whether `passed`, which came right after `tail`, completes a line `data: [DONE]`."""
    # The line is short and the search is over bytes that were just read, so this costs less than keeping a state.
    if b"]" not in passed and b"\n" not in passed and b"\r" not in passed:
        return False
    joined = tail + passed
    return b"[DONE]" in joined and _DONE_LINE.search(joined) is not None


def tail_after(tail: bytes, passed: bytes) -> bytes:
    """Keep what must be remembered of a stream when `passed` came after `tail`."""
    return passed[-TAIL_BYTES:] if len(passed) >= TAIL_BYTES else (tail + passed)[-TAIL_BYTES:]


def may_begin_event(tail: bytes) -> bool:
    """Tell whether an event written after `tail` stands on its own."""
    return tail.endswith(_BLANK_LINES)
