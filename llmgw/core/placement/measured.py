"""What a measured peak does to a need, and how both are said.

A peak is a lower bound: it is what an engine of the same profile and version came to hold, by what it was asked until
then. One that never had a full context may well come to hold more, so a peak must not stand for the whole need.
What an engine still has to come by is known from its adapter: `late_bytes` of the estimate (what is held only when
contexts fill; the cache of keys is not of it where an engine fills that with zeros at its start) and `spare_bytes`
(earlier prompts that it keeps). So, for a peak M, an estimate E, of which L is late, and a spare S:

1. M is above E: the estimate was too low. The need is M, and never less than E + S: what is above E may be prompts
   that were kept already.
2. M is below E: the estimate may be too high, or contexts were never full. The need is M + L, no more than E, and S.
3. Nothing was estimated: the need is M.
4. Nobody knows what is late (None): all of the estimate may be, and a lower peak changes nothing.

Either way the need is measured from then on, and both figures stay with it.
"""

from msgspec.structs import replace

from llmgw.core.placement.need import Need, Said
from llmgw.core.units import show_bytes


def with_peak(need: Need, peak_bytes: int | None) -> Need:
    """Let a measured peak replace an estimate, by the rules above; a need that was given stays as it is."""
    if peak_bytes is None:
        return need
    measured = replace(need, measured_bytes=peak_bytes)
    if need.said == Said.GIVEN:
        return measured
    return replace(measured, memory_bytes=_memory(need, peak_bytes), said=Said.MEASURED)


def _memory(need: Need, peak: int) -> int:
    estimated, late = need.estimated_bytes, need.late_bytes
    if estimated is None:
        return peak
    if peak >= estimated or late is None:
        return max(peak, estimated + need.spare_bytes)
    return min(estimated, peak + late) + need.spare_bytes


UNKNOWN_MEMORY = "main memory unknown (not given, and nobody has told of the weights or measured them yet)"
"""Of a profile that is refused nowhere for main memory, for nobody knows how much it needs."""


def learned_words(
    said: str, *, estimated_bytes: int | None, measured_bytes: int | None, spare_bytes: int = 0
) -> str:
    """Say where a need of main memory was learned, and what it is made of.

    E.g. "measured 540.0 MiB, estimated 611.0 MiB, 512.0 MiB for earlier prompts", or "given".
    """
    known = ((Said.MEASURED, measured_bytes), (Said.ESTIMATED, estimated_bytes))
    words = [f"{name} {show_bytes(size)}" for name, size in known if size is not None]
    if said == Said.GIVEN or not words:
        words.insert(0, str(said))
    if spare_bytes:
        words.append(f"{show_bytes(spare_bytes)} for earlier prompts")
    return ", ".join(words)
