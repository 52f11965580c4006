"""Warnings that a peer can cause at will, so they are written at most once a minute for each kind."""

import logging

EVERY_S = 60.0
MOST_KINDS = 256


class Complaints:
    """What was complained of, and when; owned by the loop that complains."""

    def __init__(self, log: logging.Logger, every_s: float | None = EVERY_S) -> None:
        """Take where to write; `every_s` None writes each kind once only."""
        self._log = log
        self._every_s = every_s
        self._last: dict[str, tuple[float, int]] = {}

    def say(self, kind: str, message: str, now: float) -> None:
        """Write `message` unless one of its kind was written a short while ago; says how many were left out."""
        last, left_out = self._last.pop(kind, (None, 0))
        if last is not None and (self._every_s is None or now - last < self._every_s):
            self._last[kind] = (last, left_out + 1)
            return
        # The kinds are the peer's words, so their number is bounded; the one that was silent longest goes.
        if len(self._last) >= MOST_KINDS:
            del self._last[next(iter(self._last))]
        self._last[kind] = (now, 0)
        self._log.warning("%s%s", message, f" (and {left_out} more like it)" if left_out else "")
