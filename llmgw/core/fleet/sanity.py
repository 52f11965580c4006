"""What an agent says of a shard, with everything that cannot be true taken out: unknown is better than nonsense.

One agent with a broken clock or a broken head must not break a page that shows the whole fleet.
"""

import math

from msgspec.structs import replace

from llmgw.core.fleet.shards import ShardState
from llmgw.core.fleet.weights import Progress

# Later than any clock that is right, and still a date that Python can show.
_LATEST_S = 253_000_000_000.0
_LONGEST_HOST = 253
_MOST_LINES = 200
_LONGEST_LINE = 8192
_LONGEST_REASON = 4096


def sane(said: ShardState) -> ShardState:
    """Take out what cannot be true; what is fine stays the same value."""
    changes: dict[str, object] = {}
    if said.since_s is not None and not _is_between(said.since_s, 0.0, _LATEST_S):
        changes["since_s"] = None
    if said.min_memory_gb is not None and not _is_between(said.min_memory_gb, 0.0, 2.0**30):
        changes["min_memory_gb"] = None
    if said.port is not None and not 0 < said.port < 65536:
        changes["port"] = None
    if said.host is not None and not _is_host(said.host):
        changes["host"] = None
    if said.reason is not None and len(said.reason) > _LONGEST_REASON:
        changes["reason"] = said.reason[:_LONGEST_REASON] + " …"
    if said.progress is not None and not _is_progress(said.progress):
        changes["progress"] = None
    if len(said.tail) > _MOST_LINES or any(len(line) > _LONGEST_LINE for line in said.tail):
        changes["tail"] = tuple(line[:_LONGEST_LINE] for line in said.tail[-_MOST_LINES:])
    return replace(said, **changes) if changes else said


def _is_progress(said: Progress) -> bool:
    """Bytes are counted from zero to the whole, and come at a speed that is a number."""
    whole = said.total_bytes is None or 0 <= said.done_bytes <= said.total_bytes < 2**62
    return (
        whole and 0 <= said.done_bytes < 2**62 and (said.rate is None or _is_between(said.rate, 0.0, 2.0**60))
    )


def _is_between(value: float, least: float, most: float) -> bool:
    return math.isfinite(value) and least <= value <= most


def _is_host(host: str) -> bool:
    # Labels of a name have at most 63 characters; an address of either kind has none that is longer.
    printable = host.isascii() and host.isprintable() and " " not in host
    return 0 < len(host) <= _LONGEST_HOST and printable and all(len(part) <= 63 for part in host.split("."))
