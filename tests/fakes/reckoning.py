"""An engine adapter that reckons, and peaks that were measured."""

from llmgw.core.fleet.catalog import Profile
from llmgw.core.fleet.model_shape import ModelShape
from llmgw.core.placement.need import Need


class FakeReckoning:
    """Needs twice the bytes of the weights, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, ModelShape | None, int | None]] = []

    def need(self, profile: Profile, shape: ModelShape | None, weights_bytes: int | None) -> Need:
        self.asked.append((profile.name, shape, weights_bytes))
        if weights_bytes is None:
            return Need()
        return Need(memory_bytes=2 * weights_bytes, estimated_bytes=2 * weights_bytes)


class FakePeaks:
    """Peaks by fingerprint."""

    def __init__(self, **peaks: int) -> None:
        self.peaks = peaks

    def of(self, fingerprint: str) -> int | None:
        return self.peaks.get(fingerprint)
