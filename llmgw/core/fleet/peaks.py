"""The most main memory that a shard of a profile was seen to hold, with a version of its engine.

A peak counts once its shard has been ready: what an engine holds while it loads is no measure of what it needs. What a
peak proves, and what it does not, is in core/placement/measured.py.
"""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from llmgw.core.fleet.shards import Phase, ShardState
from llmgw.core.fleet.snapshot import Fleet

GROWN = 1.01
"""How much a peak must grow to be worth writing down."""
_MOST_BYTES = 2**50
_LONGEST = 128
_MEASURES = frozenset({Phase.READY, Phase.DRAINING})

Key = tuple[str, str]
"""Fingerprint of a profile, and version of its engine; empty where no agent says it."""


class Peak(msgspec.Struct, frozen=True, kw_only=True):
    """One measured peak.

    Attributes:
        model: that was run when it was measured, for people.
        fingerprint: of the profile.
        engine: its name.
        version: of the engine; empty where no agent says it.
        at: when it was measured.
    """

    model: str
    fingerprint: str
    engine: str
    version: str
    peak_bytes: int
    at: datetime

    @property
    def key(self) -> Key:
        """What it is a peak of."""
        return self.fingerprint, self.version


def grown(known: Mapping[Key, Peak], fleet: Fleet, at: datetime) -> tuple[Peak, ...]:
    """Find the peaks that are new, or higher than the known ones by more than a hundredth; one for each key."""
    found: dict[Key, Peak] = {}
    for node in fleet.nodes.values():
        for use in node.uses.values():
            shard = node.shards.get(use.shard)
            if shard is None or use.peak_bytes is None or not 0 < use.peak_bytes <= _MOST_BYTES:
                continue
            peak = _peak(shard, use.peak_bytes, at)
            if peak is not None and _is_news(peak, known.get(peak.key), found.get(peak.key)):
                found[peak.key] = peak
    return tuple(found.values())


def _peak(shard: ShardState, peak_bytes: int, at: datetime) -> Peak | None:
    version = shard.engine_version or ""
    if shard.phase not in _MEASURES or shard.fingerprint is None:
        return None
    if len(version) > _LONGEST or len(shard.fingerprint) > _LONGEST:
        return None
    return Peak(
        model=shard.model,
        fingerprint=shard.fingerprint,
        engine=shard.engine or "",
        version=version,
        peak_bytes=peak_bytes,
        at=at,
    )


def _is_news(peak: Peak, known: Peak | None, found: Peak | None) -> bool:
    if found is not None and peak.peak_bytes <= found.peak_bytes:
        return False
    return known is None or peak.peak_bytes > known.peak_bytes * GROWN
