"""Which numbers can be true, by the field they stand in, and how a value loses those that cannot."""

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from llmgw.core.fleet.beat import ShardUse
from llmgw.core.fleet.hardware import EngineInstall, Fabric, Filesystem, Gpu, GpuProcess, Memory, Processor
from llmgw.core.fleet.model_shape import ModelShape
from llmgw.core.fleet.shards import Claim, ShardState
from llmgw.core.fleet.weights import Holding, Progress

# Later than any clock that is right, and still a date that Python can show.
LATEST_S = 253_000_000_000.0
LONGEST_WORDS = 4096
MOST_RANKS = 1024
MOST_GENERATIONS = 2**53
_MOST_BYTES = 2**60
_MOST_PID = 2**31 - 1
_MOST_WIDTH = 2**31

S = TypeVar("S", bound=msgspec.Struct)
T = TypeVar("T")


class Bound(NamedTuple):
    """The least and the most that a number can be, both included, and what it is taken for when it is neither."""

    field: str
    least: float
    most: float
    instead: object = None


def _bytes(*fields: str) -> tuple[Bound, ...]:
    return tuple(Bound(field, 0, _MOST_BYTES) for field in fields)


def _counts(*fields: str, most: float = _MOST_WIDTH) -> tuple[Bound, ...]:
    return tuple(Bound(field, 0, most) for field in fields)


NUMBERS: dict[type[msgspec.Struct], tuple[Bound, ...]] = {
    Processor: (Bound("cores", 1, 2**20),),
    Memory: _bytes("total_bytes", "available_bytes"),
    Filesystem: _bytes("total_bytes", "free_bytes"),
    Fabric: (),
    EngineInstall: (),
    Gpu: (
        *_bytes("total_bytes", "free_bytes"),
        Bound("utilization", 0, 1),
        *_counts("index"),
        *_counts("ecc_errors", most=2**62),
    ),
    GpuProcess: (Bound("pid", 1, _MOST_PID), *_bytes("held_bytes")),
    ShardUse: _bytes("memory_bytes", "peak_bytes"),
    Claim: _bytes("memory_bytes", "gpu_bytes", "disk_bytes"),
    Holding: (*_bytes("size_bytes"), Bound("used_s", 0, LATEST_S), Bound("files", 0, 2**31, 1)),
    Progress: (*_bytes("done_bytes", "total_bytes"), Bound("rate", 0, 2.0**60)),
    ModelShape: (
        *_counts("layers", "experts_used", "recurrent_layers", "parts", most=2**14),
        *_counts("context", "embedding", "vocabulary", "merges", "heads", "key_length", "value_length"),
        *_counts("key_length_window", "value_length_window", "window", "latent_rank", "indexer_length"),
        *_counts("feed_forward"),
        *_bytes("recurrent_bytes", "tensor_bytes", "input_bytes", "output_bytes"),
    ),
    ShardState: (
        Bound("since_s", 0, LATEST_S),
        Bound("min_memory_gb", 0, 2.0**30),
        Bound("port", 1, 65535),
        Bound("pid", 1, _MOST_PID),
        Bound("exit_status", -(2**31), 2**31),
        Bound("capacity", 1, 2**20),
        Bound("ranks", 1, MOST_RANKS, 1),
    ),
}
"""By type; a number that is None is not said, and is fine."""

WORDS: dict[type[msgspec.Struct], tuple[str, ...]] = {
    Gpu: ("name", "gpu_class", "problem"),
    GpuProcess: ("command",),
    Fabric: ("rate", "problem"),
    EngineInstall: ("version", "problem"),
    ShardState: ("reason",),
}
"""What people read, by type; it is cut when it is longer than anybody would read."""


_LOOKS = {
    kind: (
        [(attrgetter(bound.field), bound.least, bound.most) for bound in bounds],
        [attrgetter(field) for field in WORDS.get(kind, ())],
    )
    for kind, bounds in NUMBERS.items()
}


def wrong_numbers(said: msgspec.Struct) -> dict[str, object]:
    """List the numbers that cannot be true, each with what it is taken for."""
    # What is not a number lies between no two of them.
    return {
        field: instead
        for field, least, most, instead in NUMBERS[type(said)]
        if (number := getattr(said, field)) is not None and not least <= number <= most
    }


def believed(said: S) -> S:
    """Take out the numbers that cannot be true and cut long words; what is fine stays the same value."""
    changes = wrong_numbers(said)
    for field in WORDS.get(type(said), ()):
        words = getattr(said, field)
        if words is not None and len(words) > LONGEST_WORDS:
            changes[field] = words[:LONGEST_WORDS] + " …"
    return replace(said, **changes) if changes else said


def are_believed(said: Sequence[msgspec.Struct]) -> bool:
    """Tell of values of one type whether `believed` would change none of them."""
    if not said:
        return True
    # A thousand heartbeats a second come this way, with dozens of processes in each: field by field over all of them
    # takes a tenth of what it takes one by one.
    numbers, words = _LOOKS[type(said[0])]
    for field, least, most in numbers:
        for number in map(field, said):
            if number is not None and not least <= number <= most:
                return False
    return all(text is None or len(text) <= LONGEST_WORDS for field in words for text in map(field, said))


def all_believed(said: tuple[S, ...]) -> tuple[S, ...]:
    """Let each of some values of one type be `believed`; when all are fine it is the same tuple."""
    return said if are_believed(said) else each(said, believed)


def each(said: tuple[T, ...], mend: Callable[[T], T | None]) -> tuple[T, ...]:
    """Mend each of some values and leave out those of which None is left; when all are fine it is the same tuple."""
    mended = tuple([one for one in map(mend, said) if one is not None])
    same = len(mended) == len(said) and all([one is other for one, other in zip(mended, said, strict=True)])
    return said if same else mended
