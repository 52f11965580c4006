"""A clock that a test moves by hand."""

from datetime import UTC, datetime, timedelta


class FakeClock:
    """Starts at zero monotonic seconds and at the first of January 2030, and moves only when told."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.start = datetime(2030, 1, 1, tzinfo=UTC)

    def now(self) -> float:
        return self.seconds

    def at(self) -> datetime:
        return self.start + timedelta(seconds=self.seconds)

    def advance(self, seconds: float) -> None:
        self.seconds += seconds
