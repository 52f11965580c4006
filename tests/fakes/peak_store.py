"""A store of peaks that can be told to fail."""

from collections.abc import Sequence

from llmgw.core.errors import StoreFailed
from llmgw.core.fleet.peaks import Peak


class FakePeakStore:
    """Keeps each batch it was given."""

    def __init__(self) -> None:
        self.batches: list[tuple[Peak, ...]] = []
        self.broken = False

    async def keep(self, found: Sequence[Peak]) -> None:
        if self.broken:
            raise StoreFailed("the disk is full")
        self.batches.append(tuple(found))
