"""Quantities as pages show them: what is free of what there is, rounded to what can be seen."""

import msgspec

from llmgw.core.units import show_bytes


class Amount(msgspec.Struct, frozen=True, kw_only=True):
    """Some of a whole.

    Attributes:
        free: in words; "-" when nobody said.
        total: in words; "-" when nobody said.
        used_percent: for a bar, whole percents; None when either is unknown.
    """

    free: str
    total: str
    used_percent: int | None


def amount(free_bytes: int | None, total_bytes: int | None) -> Amount:
    """Show how much is free of a whole."""
    return Amount(
        free=show_bytes(free_bytes),
        total=show_bytes(total_bytes),
        used_percent=used_percent(free_bytes, total_bytes),
    )


def used_percent(free_bytes: int | None, total_bytes: int | None) -> int | None:
    """Tell how much of a whole is taken, in whole percents within 0 and 100; None when that is unknown."""
    if free_bytes is None or not total_bytes:
        return None
    used = total_bytes - free_bytes
    return min(100, max(0, (200 * used + total_bytes) // (2 * total_bytes)))
