"""GPUs as pages show them: which are free, what fills the others, and how much of their memory is taken."""

from collections import Counter
from collections.abc import Iterable

import msgspec

from llmgw.core.fleet.hardware import Gpu, GpuProcess
from llmgw.core.fleet.shards import LIVE
from llmgw.core.fleet.snapshot import Node
from llmgw.core.units import show_bytes
from llmgw.ui.present.amounts import Amount, amount, used_percent

_FREE_UP_TO_PERCENT = 10
"""A display or a driver's own memory makes no GPU taken."""


class GpuCell(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU in the strip of its node.

    Attributes:
        state: "free", "ours" (a replica has it), "taken" (something else fills it) or "broken".
        used_percent: of its memory; None when nobody knows.
    """

    state: str
    used_percent: int | None


class GpuStrip(msgspec.Struct, frozen=True, kw_only=True):
    """All GPUs of a node at a glance.

    Attributes:
        kinds: e.g. "8 x h100-80gb-hbm3".
        memory: of all of them together.
    """

    cells: tuple[GpuCell, ...]
    free: int
    total: int
    kinds: str
    memory: Amount


class GpuView(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU with all that is known of it; texts are "-" where nothing is.

    Attributes:
        holders: shards that have it as their own.
        foreign: a sentence on each process on it that is no engine of ours; None when nobody can tell.
    """

    uuid: str
    index: str
    name: str
    gpu_class: str
    state: str
    memory: Amount
    utilization: str
    ecc: str
    slice_of: str | None
    unified: bool
    holders: tuple[str, ...]
    foreign: tuple[str, ...] | None
    problem: str | None


def gpu_strip(node: Node) -> GpuStrip | None:
    """Show the GPUs of a node at a glance; None when nobody said which it has."""
    gpus = node.machine.gpus
    if gpus is None:
        return None
    holders = shards_on(node)
    cells = tuple(
        GpuCell(
            state=gpu_state(gpu, gpu.uuid in holders),
            used_percent=used_percent(gpu.free_bytes, gpu.total_bytes),
        )
        for gpu in gpus
    )
    kinds = Counter(gpu.gpu_class or gpu.name or "unknown kind" for gpu in gpus)
    return GpuStrip(
        cells=cells,
        free=sum(cell.state == "free" for cell in cells),
        total=len(cells),
        kinds=", ".join(f"{count} × {kind}" for kind, count in sorted(kinds.items())),
        memory=amount(
            _summed(gpu.free_bytes for gpu in gpus),
            _summed(gpu.total_bytes for gpu in gpus),
        ),
    )


def gpu_views(node: Node) -> tuple[GpuView, ...] | None:
    """Show every GPU of a node; None when nobody said which it has."""
    gpus = node.machine.gpus
    if gpus is None:
        return None
    holders = shards_on(node)
    return tuple(_view(gpu, holders.get(gpu.uuid, ())) for gpu in gpus)


def _view(gpu: Gpu, holders: tuple[str, ...]) -> GpuView:
    return GpuView(
        uuid=gpu.uuid,
        index="-" if gpu.index is None else str(gpu.index),
        name=gpu.name or "-",
        gpu_class=gpu.gpu_class or "-",
        state=gpu_state(gpu, bool(holders)),
        memory=amount(gpu.free_bytes, gpu.total_bytes),
        utilization="-" if gpu.utilization is None else f"{gpu.utilization:.0%}",
        ecc=_ecc(gpu),
        slice_of=gpu.slice_of,
        unified=gpu.unified,
        holders=holders,
        foreign=None if gpu.foreign is None else tuple(_process(process) for process in gpu.foreign),
        problem=gpu.problem,
    )


def _process(process: GpuProcess) -> str:
    held = "" if process.held_bytes is None else f" holds {show_bytes(process.held_bytes)}"
    return f"{process.command or 'a process'} (pid {process.pid}){held}"


def _ecc(gpu: Gpu) -> str:
    if gpu.ecc is None:
        return "-"
    if not gpu.ecc:
        return "off"
    return f"{gpu.ecc_errors} uncorrected errors" if gpu.ecc_errors else "on"


def gpu_state(gpu: Gpu, held: bool) -> str:
    """Say how a GPU stands, as in GpuCell; `held` is that a replica has it."""
    if gpu.problem is not None:
        return "broken"
    if held:
        return "ours"
    used = used_percent(gpu.free_bytes, gpu.total_bytes)
    return "taken" if used is not None and used > _FREE_UP_TO_PERCENT else "free"


def shards_on(node: Node) -> dict[str, tuple[str, ...]]:
    """List the shards that have each GPU of a node as their own, by its uuid."""
    holders: dict[str, tuple[str, ...]] = {}
    for shard in node.shards.values():
        if shard.phase in LIVE and shard.claim is not None:
            for uuid in shard.claim.gpus:
                holders[uuid] = (*holders.get(uuid, ()), shard.shard)
    return holders


def _summed(quantities: Iterable[int | None]) -> int | None:
    known = [quantity for quantity in quantities if quantity is not None]
    return sum(known) if known else None
