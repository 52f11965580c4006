"""The only reader of time."""

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Two kinds of time: one for waiting, one for records."""

    def now(self) -> float:
        """Monotonic seconds, for waiting; the zero means nothing."""

    def at(self) -> datetime:
        """The time of day in UTC, for records."""


class SystemClock:
    """The machine's own clocks."""

    def now(self) -> float:
        """Monotonic seconds."""
        return time.monotonic()

    def at(self) -> datetime:
        """The time of day in UTC."""
        return datetime.now(UTC)
