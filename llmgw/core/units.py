"""Sizes (`24g`, binary) and times (`15s`) as people write and read them."""

import re
from datetime import datetime

KIB = 1024
MIB = 1024**2
GIB = 1024**3
TIB = 1024**4

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\Z", re.IGNORECASE)
_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)\Z")
_SIZES = {"": 1, "k": KIB, "m": MIB, "g": GIB, "t": TIB}
_TIMES = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
# What is larger is a slip of the hand, and no longer a number that everything downstream can hold.
_MOST = 2.0**62


def parse_size(text: str) -> int | None:
    """Read `24g`, `512m`, `1.5t` or a plain number of bytes; None when it is none of these."""
    match = _SIZE.match(text.strip())
    if match is None:
        return None
    count = float(match[1]) * _SIZES[match[2].lower()]
    return int(count) if count < _MOST else None


def parse_time(text: str) -> float | None:
    """Read `15s`, `5m`, `24h`, `90d` or `250ms` as seconds; None when it is none of these."""
    match = _TIME.match(text.strip())
    if match is None:
        return None
    seconds = float(match[1]) * _TIMES[match[2]]
    return seconds if seconds < _MOST else None


def show_bytes(count: int | None) -> str:
    """Show a number of bytes in binary units (`23.4 GiB`); `-` for unknown."""
    if count is None:
        return "-"
    for unit, size in (("TiB", TIB), ("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if abs(count) >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"


def show_seconds(seconds: float) -> str:
    """Show a span as people say it: `8 s`, `4 min`, `2 h 5 min`, `3 d 4 h`."""
    whole = max(0, int(seconds))
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min"
    if whole < 172800:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


def show_since(since: datetime, at: datetime) -> str:
    """Show how long ago `since` was when it is `at`."""
    return show_seconds((at - since).total_seconds())
