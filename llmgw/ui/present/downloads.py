"""Downloads as pages show them; no percentage is invented where the whole is unknown."""

import msgspec

from llmgw.core.fleet.weights import Progress
from llmgw.core.units import show_bytes, show_seconds


class Download(msgspec.Struct, frozen=True, kw_only=True):
    """How far a download is.

    Attributes:
        percent: None when nobody knows the whole.
        text: e.g. "12.3 of 40.1 GiB, 98.2 MiB/s, 4 min left".
    """

    percent: int | None
    text: str


def download(progress: Progress) -> Download:
    """Show how far a download is."""
    done, total, rate = progress.done_bytes, progress.total_bytes, progress.rate
    parts = [show_bytes(done) if total is None else f"{show_bytes(done)} of {show_bytes(total)}"]
    if rate is not None:
        parts.append(f"{show_bytes(int(rate))}/s")
        if total is not None and rate >= 1:
            parts.append(f"{show_seconds((total - done) / rate)} left")
    percent = min(100, int(100 * done / total)) if total else None
    return Download(percent=percent, text=", ".join(parts))
