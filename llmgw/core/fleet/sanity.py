"""What an agent says, with everything that cannot be true taken out: unknown is better than nonsense.

One agent with a broken clock or a broken head must not break a page that shows the whole fleet, nor stop the server
while it counts to a number that nobody meant.
"""

from msgspec.structs import replace

from llmgw.core.fleet.beat import Beat
from llmgw.core.fleet.bounds import (
    MOST_GENERATIONS,
    MOST_RANKS,
    all_believed,
    are_believed,
    believed,
    each,
    wrong_numbers,
)
from llmgw.core.fleet.hardware import Gpu, GpuProcess, Machine
from llmgw.core.fleet.model_shape import ModelShape
from llmgw.core.fleet.shards import ShardState
from llmgw.core.fleet.weights import Holding, Progress

_LONGEST_HOST = 253
_MOST_LINES = 200
_LONGEST_LINE = 8192
_MOST_LAYERS = 2**14
_MOST_ORDINALS = 2**20


def sane(said: ShardState) -> ShardState:
    """Take out what cannot be true; what is fine stays the same value."""
    said = believed(said)
    changes: dict[str, object] = {}
    if said.host is not None and not _is_host(said.host):
        changes["host"] = None
    if said.progress is not None and not _is_progress(said.progress):
        changes["progress"] = None
    if said.claim is not None and (claim := believed(said.claim)) is not said.claim:
        changes["claim"] = claim
    if len(said.tail) > _MOST_LINES or any(len(line) > _LONGEST_LINE for line in said.tail):
        changes["tail"] = tuple(line[:_LONGEST_LINE] for line in said.tail[-_MOST_LINES:])
    return replace(said, **changes) if changes else said


def is_credible(said: ShardState) -> bool:
    """Tell whether this can be a shard at all: one whose place or generation cannot be is none that anybody started."""
    return (
        0 <= said.rank < MOST_RANKS
        and 0 <= said.ordinal < _MOST_ORDINALS
        and 0 <= said.generation.epoch < MOST_GENERATIONS
        and 0 <= said.generation.counter < MOST_GENERATIONS
    )


def sane_shards(said: tuple[ShardState, ...]) -> tuple[ShardState, ...]:
    """Keep the shards that can be, each without what cannot be true."""
    return tuple(sane(shard) for shard in said if is_credible(shard))


def sane_beat(said: Beat) -> Beat:
    """Take out what cannot be true of what a node says again and again; what is fine stays the same value."""
    changes: dict[str, object] = {}
    if said.memory is not None:
        changes["memory"] = believed(said.memory)
    for field in ("filesystems", "engines", "fabrics", "uses"):
        if (many := getattr(said, field)) is not None:
            changes[field] = all_believed(many)
    if said.gpus is not None:
        changes["gpus"] = sane_gpus(said.gpus)
    if said.weights is not None:
        changes["weights"] = sane_weights(said.weights)
    changes = {field: value for field, value in changes.items() if value is not getattr(said, field)}
    return replace(said, **changes) if changes else said


def sane_machine(said: Machine) -> Machine:
    """Take out what cannot be true of what a node says of itself when it registers."""
    return replace(
        said,
        processor=believed(said.processor),
        memory=believed(said.memory),
        filesystems=None if said.filesystems is None else all_believed(said.filesystems),
        gpus=None if said.gpus is None else sane_gpus(said.gpus),
        fabrics=None if said.fabrics is None else all_believed(said.fabrics),
    )


def sane_gpus(said: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    """Keep each GPU once: engines are given GPUs by their uuid, so one without it, or a second of it, is none."""
    uuids = {gpu.uuid for gpu in said}
    processes = [process for gpu in said for process in gpu.foreign or ()]
    if len(uuids) == len(said) and "" not in uuids and are_believed(said) and are_believed(processes):
        return said
    seen: set[str] = set()

    def mended(gpu: Gpu) -> Gpu | None:
        if not gpu.uuid or gpu.uuid in seen:
            return None
        seen.add(gpu.uuid)
        gpu = believed(gpu)
        foreign = None if gpu.foreign is None else each(gpu.foreign, _process)
        return gpu if foreign is gpu.foreign else replace(gpu, foreign=foreign)

    return each(said, mended)


def _process(said: GpuProcess) -> GpuProcess | None:
    return None if "pid" in wrong_numbers(said) else believed(said)


def sane_weights(said: tuple[Holding, ...]) -> tuple[Holding, ...]:
    """Take out what cannot be true of weights; of a header with one false number nothing is believed."""
    return each(said, _holding)


def _holding(said: Holding) -> Holding:
    held = believed(said)
    return held if held.shape is None or _is_shape(held.shape) else replace(held, shape=None)


def _is_shape(said: ModelShape) -> bool:
    heads, windowed = said.kv_heads or (), said.window_layers or ()
    fits = len(heads) <= _MOST_LAYERS and len(windowed) <= _MOST_LAYERS
    return fits and not wrong_numbers(said) and all(0 <= count < 2**20 for count in heads)


def _is_progress(said: Progress) -> bool:
    """Bytes are counted from zero to the whole, and come at a speed that is a number."""
    whole = said.total_bytes is None or said.done_bytes <= said.total_bytes
    return whole and not wrong_numbers(said)


def _is_host(host: str) -> bool:
    # Labels of a name have at most 63 characters; an address of either kind has none that is longer.
    printable = host.isascii() and host.isprintable() and " " not in host
    return 0 < len(host) <= _LONGEST_HOST and printable and all(len(part) <= 63 for part in host.split("."))
