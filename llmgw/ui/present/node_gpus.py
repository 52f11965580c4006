"""The GPUs of a node as the API tells of them: all that is known of each, and their sums."""

from collections.abc import Iterable

import msgspec

from llmgw.core.fleet.hardware import Gpu
from llmgw.core.fleet.snapshot import Node
from llmgw.ui.present.gpus import gpu_state, shards_on


class NodeGpu(Gpu, frozen=True, kw_only=True):
    """One GPU.

    Attributes:
        state: "free", "ours" (a replica has it), "taken" (something else fills it) or "broken".
        shards: engine processes that have it as their own.
    """

    state: str
    shards: tuple[str, ...]


class GpuSums(msgspec.Struct, frozen=True, kw_only=True):
    """All GPUs of a node together.

    Attributes:
        free: how many nobody uses.
        free_bytes: of the memory of those that can be used; None when nobody said.
        total_bytes: of the memory of all; None when nobody said.
    """

    total: int
    free: int
    total_bytes: int | None
    free_bytes: int | None


def node_gpus(node: Node) -> tuple[NodeGpu, ...] | None:
    """Show every GPU of a node; None when nobody said which it has."""
    gpus = node.machine.gpus
    if gpus is None:
        return None
    shards = shards_on(node)
    return tuple(_shown(gpu, shards.get(gpu.uuid, ())) for gpu in gpus)


def gpu_sums(gpus: tuple[NodeGpu, ...] | None) -> GpuSums | None:
    """Add the GPUs of a node up; None when nobody said which it has."""
    if gpus is None:
        return None
    return GpuSums(
        total=len(gpus),
        free=sum(gpu.state == "free" for gpu in gpus),
        total_bytes=_sum(gpu.total_bytes for gpu in gpus),
        free_bytes=_sum(gpu.free_bytes for gpu in gpus),
    )


def _shown(gpu: Gpu, shards: tuple[str, ...]) -> NodeGpu:
    return NodeGpu(**msgspec.structs.asdict(gpu), state=gpu_state(gpu, bool(shards)), shards=shards)


def _sum(quantities: Iterable[int | None]) -> int | None:
    known = [quantity for quantity in quantities if quantity is not None]
    return sum(known) if known else None
