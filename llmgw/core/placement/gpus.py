"""What is left of each GPU of a node: its live free memory less what is promised on it and does not show there yet.

A GPU is shared by shards that say how much of it they take, and belongs to one alone that does not. What the driver
does not tell refuses nobody; a GPU with a problem is never used.
"""

from collections.abc import Iterable
from math import ceil, inf

import msgspec
from msgspec.structs import replace

from llmgw.core.fleet.hardware import Gpu
from llmgw.core.fleet.shards import LIVE, Claim, Phase, ShardState
from llmgw.core.placement.demand import Demand

PROMISED = frozenset({Phase.PENDING, Phase.FETCHING, Phase.STARTING})
"""Phases in which a shard was promised memory that it may not have taken yet."""
WHOLE_SHARE = 0.9
"""Of a GPU that is asked for whole, so much must be free: drivers keep a little, whoever works there keeps more."""


class GpuRoom(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU and what may still be placed on it.

    Attributes:
        left_bytes: of its memory, after all promises; None when the node does not say.
        holders: what of ours is on it or coming to it: shards, and models of which this plan places one.
        is_taken: one of them has it for itself.
    """

    gpu: Gpu
    left_bytes: int | None = None
    holders: tuple[str, ...] = ()
    is_taken: bool = False


def gpu_rooms(
    gpus: tuple[Gpu, ...] | None, shards: Iterable[ShardState], memory_left_bytes: int | None
) -> tuple[GpuRoom, ...] | None:
    """Work out what is left of each GPU; None when nobody said which there are.

    Args:
        memory_left_bytes: of main memory, which is what there is of a GPU that shares it.
    """
    if not gpus:
        return gpus if gpus is None else ()
    claims = [(shard, shard.claim) for shard in shards if shard.claim is not None and shard.claim.gpus]
    rooms = []
    for gpu in gpus:
        here = [(s, c) for s, c in claims if gpu.uuid in c.gpus and s.phase in LIVE] if claims else []
        left = memory_left_bytes if gpu.unified else _left(gpu, here)
        rooms.append(
            GpuRoom(
                gpu=gpu,
                left_bytes=left,
                holders=tuple(shard.shard for shard, _ in here),
                is_taken=any(claim.gpu_bytes is None for _, claim in here),
            )
        )
    return tuple(rooms)


def _left(gpu: Gpu, here: list[tuple[ShardState, Claim]]) -> int | None:
    if not here:
        return gpu.free_bytes
    claimed = sum(claim.gpu_bytes or 0 for _, claim in here)
    promised = sum(claim.gpu_bytes or 0 for shard, claim in here if shard.phase in PROMISED)
    bounds = [] if gpu.free_bytes is None else [gpu.free_bytes - promised]
    if gpu.total_bytes is not None:
        bounds.append(gpu.total_bytes - claimed)
    return min(bounds, default=None)


def is_of_class(gpu: Gpu, gpu_class: str | None) -> bool:
    """Tell whether a GPU is of the kind that is asked for; one that does not say its kind is of any."""
    return gpu_class is None or gpu.gpu_class is None or gpu.gpu_class.startswith(gpu_class)


def asked_bytes(gpu: Gpu, gpu_bytes: int | None, gpu_share: float | None) -> int:
    """Say how much of one GPU is asked for; a share of an unknown memory asks for nothing."""
    share = 0 if gpu_share is None or gpu.total_bytes is None else ceil(gpu_share * gpu.total_bytes)
    return max(gpu_bytes or 0, share)


class GpuAsk(msgspec.Struct, frozen=True):
    """What is asked of each GPU of a node, but for the bytes: so many of this kind, shared or whole.

    Called with a room's GPUs, it tells the most that each of that many can give; so it is a column of the index.
    """

    count: int
    gpu_class: str | None
    gpu_share: float | None
    whole: bool

    def free_of(self, room: GpuRoom) -> float | None:
        """Say what a GPU has for such an ask, bytes; infinity when unknown, None when it cannot be used for it."""
        gpu = room.gpu
        if gpu.problem is not None or room.is_taken or not is_of_class(gpu, self.gpu_class):
            return None
        if room.left_bytes is None:
            return None if self.whole and room.holders else inf
        if self.whole and (room.holders or not _is_mostly_free(gpu, room.left_bytes)):
            return None
        if self.gpu_share is not None and room.left_bytes < asked_bytes(gpu, None, self.gpu_share):
            return None
        return room.left_bytes

    def most_each(self, gpus: tuple[GpuRoom, ...] | None) -> float:
        """Say how many bytes each of `count` GPUs has at least, taking the best; below zero when there are too few."""
        if gpus is None:
            return inf
        free = [left for room in gpus if (left := self.free_of(room)) is not None]
        if len(free) < self.count:
            return -inf
        free.sort(reverse=True)
        return free[self.count - 1]

    def tightest(self, gpus: tuple[GpuRoom, ...] | None, gpu_bytes: int) -> float:
        """Say how large the largest GPU is that the tightest fit takes, bytes free; infinity when unknown."""
        if gpus is None:
            return inf
        free = sorted(left for room in gpus if (left := self.free_of(room)) is not None and left >= gpu_bytes)
        return free[self.count - 1] if len(free) >= self.count else inf


def _is_mostly_free(gpu: Gpu, left_bytes: int) -> bool:
    # Of memory that is shared with the machine, much is always in use.
    return gpu.unified or gpu.total_bytes is None or left_bytes >= WHOLE_SHARE * gpu.total_bytes


def ask_of(demand: Demand) -> GpuAsk:
    """Read what a demand asks of GPUs, but for the bytes."""
    return GpuAsk(demand.gpus, demand.gpu_class, demand.gpu_share, demand.takes_whole)


def choose_gpus(demand: Demand, gpus: tuple[GpuRoom, ...] | None) -> tuple[GpuRoom, ...]:
    """Choose the GPUs that a shard gets on a node that fits: the tightest first, by number among equals."""
    if not demand.gpus or gpus is None:
        return ()
    ask, least = ask_of(demand), demand.gpu_bytes or 0
    fitting = [
        (left, number, room)
        for number, room in enumerate(gpus)
        if (left := ask.free_of(room)) is not None and left >= least
    ]
    fitting.sort(key=lambda one: one[:2])
    return tuple(room for _, _, room in fitting[: demand.gpus])


def claimed_gpu_bytes(demand: Demand, chosen: tuple[GpuRoom, ...]) -> int | None:
    """Say what is promised of each of these GPUs; None takes them whole.

    Where their sizes differ and a share is asked for, the share of the largest counts for all.
    """
    if demand.takes_whole or not chosen:
        return None
    return max(asked_bytes(room.gpu, demand.gpu_bytes, demand.gpu_share) for room in chosen)


def claim_gpus(
    gpus: tuple[GpuRoom, ...] | None, model: str, claim: Claim, memory_left_bytes: int | None
) -> tuple[GpuRoom, ...] | None:
    """Take a placed shard off the GPUs."""
    if not gpus:
        return gpus
    return tuple(_claimed(room, model, claim, memory_left_bytes) for room in gpus)


def _claimed(room: GpuRoom, model: str, claim: Claim, memory_left_bytes: int | None) -> GpuRoom:
    if room.gpu.unified and room.left_bytes != memory_left_bytes:
        room = replace(room, left_bytes=memory_left_bytes)
    if room.gpu.uuid not in claim.gpus:
        return room
    left = room.left_bytes
    if left is not None and not room.gpu.unified:
        left -= claim.gpu_bytes or 0
    return replace(
        room,
        left_bytes=left,
        holders=(*room.holders, model),
        is_taken=room.is_taken or claim.gpu_bytes is None,
    )
