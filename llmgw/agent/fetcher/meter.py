"""How far a download is and how fast it goes."""

from collections import deque

from llmgw.core.fleet.weights import Progress
from llmgw.runtime.clock import Clock

WINDOW_S = 10.0
_SPACING_S = 0.25


class Meter:
    """Counts bytes of all files of one source. What was there before counts as done, and not as speed."""

    def __init__(self, cache_name: str, clock: Clock) -> None:
        self._cache_name = cache_name
        self._clock = clock
        self._done: dict[str, int] = {}
        self._sizes: dict[str, int | None] = {}
        self._came: deque[tuple[float, int]] = deque()
        self._came_bytes = 0

    def expect(self, file: str, size: int | None) -> None:
        """Take how large a file is; None when its source does not say."""
        self._sizes[file] = size

    def has(self, file: str, size: int) -> None:
        """Take how much of a file is there."""
        self._done[file] = size

    def came(self, file: str, count: int) -> None:
        """Take that more of a file came."""
        self._done[file] = self._done.get(file, 0) + count
        self._came_bytes += count
        now = self._clock.now()
        if not self._came or now - self._came[-1][0] >= _SPACING_S:
            self._came.append((now, self._came_bytes))

    def progress(self) -> Progress:
        """Say how far it is."""
        sizes = list(self._sizes.values())
        known = [size for size in sizes if size is not None]
        return Progress(
            cache_name=self._cache_name,
            done_bytes=sum(self._done.values()),
            total_bytes=sum(known) if sizes and len(known) == len(sizes) else None,
            rate=self._rate(),
        )

    def _rate(self) -> float | None:
        now = self._clock.now()
        while len(self._came) > 1 and now - self._came[0][0] > WINDOW_S:
            self._came.popleft()
        if not self._came or now - self._came[0][0] < _SPACING_S:
            return None
        began, before = self._came[0]
        return (self._came_bytes - before) / (now - began)
