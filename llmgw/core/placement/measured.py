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


def memory_words(need: Need) -> str | None:
    """Say how much main memory is needed and where that was learned; None when nobody knows.

    E.g. "1.1 GiB of memory (measured 540 MiB, estimated 611 MiB; 512 MiB of it for earlier prompts)".
    """
    if need.memory_bytes is None:
        return None
    learned = []
    if need.said == Said.GIVEN:
        learned.append("as the profile says")
    if need.measured_bytes is not None:
        learned.append(f"measured {show_bytes(need.measured_bytes)}")
    if need.estimated_bytes is not None:
        learned.append(f"estimated {show_bytes(need.estimated_bytes)}")
    words = ", ".join(learned)
    if need.said != Said.GIVEN and need.spare_bytes:
        words += f"; {show_bytes(need.spare_bytes)} of it for earlier prompts"
    return f"{show_bytes(need.memory_bytes)} of memory" + (f" ({words})" if words else "")
