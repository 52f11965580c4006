"""What is left of each GPU of a node: its live free memory less what is promised on it and does not show there yet.

A GPU is shared by shards that say how much of it they take, and belongs to one alone that does not. What the driver
does not tell refuses nobody; a GPU with a problem is never used.
"""

from bisect import bisect_left
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


class GpuRoom(msgspec.Struct, frozen=True, kw_only=True, gc=False):
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
    here = _by_gpu(shards)
    rooms = []
    for gpu in gpus:
        left = memory_left_bytes if gpu.unified else gpu.free_bytes
        if left is None:
            # What is free is not said, but there is no more than there is in all.
            left = gpu.total_bytes
        claims = here.get(gpu.uuid)
        rooms.append(GpuRoom(gpu=gpu, left_bytes=left) if claims is None else _claimed_gpu(gpu, left, claims))
    return tuple(rooms)


def _by_gpu(shards: Iterable[ShardState]) -> dict[str, list[tuple[ShardState, Claim]]]:
    found: dict[str, list[tuple[ShardState, Claim]]] = {}
    for shard in shards:
        claim = shard.claim
        if claim is not None and claim.gpus and shard.phase in LIVE:
            for uuid in claim.gpus:
                found.setdefault(uuid, []).append((shard, claim))
    return found


def _claimed_gpu(gpu: Gpu, free_bytes: int | None, claims: list[tuple[ShardState, Claim]]) -> GpuRoom:
    left = free_bytes
    if not gpu.unified:
        promised = sum([claim.gpu_bytes or 0 for shard, claim in claims if shard.phase in PROMISED])
        claimed = sum([claim.gpu_bytes or 0 for _, claim in claims])
        bounds = [] if free_bytes is None else [free_bytes - promised]
        bounds += [] if gpu.total_bytes is None else [gpu.total_bytes - claimed]
        left = min(bounds, default=None)
    return GpuRoom(
        gpu=gpu,
        left_bytes=left,
        holders=tuple([shard.shard for shard, _ in claims]),
        is_taken=any([claim.gpu_bytes is None for _, claim in claims]),
    )


def is_of_class(gpu_class: str | None, asked: str | None) -> bool:
    """Tell whether a GPU is of the class that is asked for; one that does not say its class is of any."""
    return asked is None or gpu_class is None or gpu_class.startswith(asked)


def asked_bytes(total_bytes: int | None, gpu_bytes: int | None, gpu_share: float | None) -> int:
    """Say how much of one GPU is asked for; a share of an unknown memory asks for nothing."""
    share = 0 if gpu_share is None or total_bytes is None else ceil(gpu_share * total_bytes)
    return max(gpu_bytes or 0, share)


class Kind(msgspec.Struct, frozen=True, gc=False):
    """The GPUs of one kind on a node, as far as they can be used.

    Attributes:
        gpu_class: None when the node does not say.
        total_bytes: of each.
        count: how many there are, taken ones included.
        shared: what each has left that takes shards beside others, bytes, the least first; infinity when unknown.
        whole: the same of those that can be had whole.
    """

    gpu_class: str | None
    total_bytes: int | None
    count: int
    shared: tuple[float, ...]
    whole: tuple[float, ...]


def kinds_of(gpus: tuple[GpuRoom, ...] | None) -> tuple[Kind, ...] | None:
    """Sort GPUs by their kind, leaving out those with a problem; None when nobody said which there are.

    Most nodes have one kind, of which many plans ask the same few things.
    """
    if not gpus:
        return gpus if gpus is None else ()
    kinds: dict[tuple[str | None, int | None], list[GpuRoom]] = {}
    for room in gpus:
        if room.gpu.problem is None:
            kinds.setdefault((room.gpu.gpu_class, room.gpu.total_bytes), []).append(room)
    return tuple([_kind(gpu_class, total, rooms) for (gpu_class, total), rooms in kinds.items()])


def _kind(gpu_class: str | None, total_bytes: int | None, rooms: list[GpuRoom]) -> Kind:
    shared, whole = [], []
    for room in rooms:
        if not room.is_taken:
            left = inf if room.left_bytes is None else room.left_bytes
            shared.append(left)
            if not room.holders and _is_mostly_free(room):
                whole.append(left)
    shared.sort()
    whole.sort()
    return Kind(gpu_class, total_bytes, len(rooms), tuple(shared), tuple(whole))


def _free(room: GpuRoom) -> float:
    return inf if room.left_bytes is None else room.left_bytes


def _is_mostly_free(room: GpuRoom) -> bool:
    gpu = room.gpu
    # Of memory that is shared with the machine, much is always in use.
    if gpu.unified or gpu.total_bytes is None or room.left_bytes is None:
        return True
    return room.left_bytes >= WHOLE_SHARE * gpu.total_bytes


class GpuAsk(msgspec.Struct, frozen=True, gc=False):
    """What is asked of GPUs, but for how many and how many bytes of each: so few plans ask for many of these."""

    gpu_class: str | None
    gpu_share: float | None
    whole: bool

    def free(self, kinds: tuple[Kind, ...]) -> tuple[float, ...]:
        """List what each GPU that serves has left, bytes, the least first; infinity when unknown."""
        found: tuple[float, ...] = ()
        for kind in kinds:
            if self.gpu_class is None or is_of_class(kind.gpu_class, self.gpu_class):
                free = kind.whole if self.whole else kind.shared
                if self.gpu_share is not None:
                    free = free[bisect_left(free, asked_bytes(kind.total_bytes, None, self.gpu_share)) :]
                found = tuple(sorted(found + free)) if found else free
        return found


UNKNOWN_GPUS = (inf,) * 64
"""What the GPUs of a node have left that does not say which there are: as much of as many as anyone may ask for."""


def most_each(free: tuple[float, ...], count: int) -> float:
    """Say how many bytes each of `count` GPUs has at least, taking the best of them; below zero for too few."""
    return free[-count] if len(free) >= count else -inf


def tightest(free: tuple[float, ...], count: int, gpu_bytes: int) -> float:
    """Say what the largest of those `count` GPUs has that are the tightest fit, bytes; infinity for too few."""
    last = bisect_left(free, gpu_bytes) + count - 1
    return free[last] if last < len(free) else inf


def ask_of(demand: Demand) -> GpuAsk:
    """Read what a demand asks of GPUs, but for how many and how many bytes of each."""
    return GpuAsk(demand.gpu_class, demand.gpu_share, demand.takes_whole)


def serves(demand: Demand, room: GpuRoom) -> bool:
    """Tell whether one GPU can be had for a demand."""
    gpu = room.gpu
    if gpu.problem is not None or room.is_taken or not is_of_class(gpu.gpu_class, demand.gpu_class):
        return False
    if demand.takes_whole:
        return not room.holders and _is_mostly_free(room)
    return _free(room) >= asked_bytes(gpu.total_bytes, demand.gpu_bytes, demand.gpu_share)


def choose_gpus(demand: Demand, gpus: tuple[GpuRoom, ...] | None) -> tuple[GpuRoom, ...]:
    """Choose the GPUs that a shard gets on a node that fits: the tightest first, by number among equals."""
    if not demand.gpus or gpus is None:
        return ()
    # Sorting keeps the order of numbers among equals.
    fitting = sorted((room for room in gpus if serves(demand, room)), key=_free)
    return tuple(fitting[: demand.gpus])


def claimed_gpu_bytes(demand: Demand, chosen: tuple[GpuRoom, ...]) -> int | None:
    """Say what is promised of each of these GPUs; None takes them whole.

    Where their sizes differ and a share is asked for, the share of the largest counts for all.
    """
    if demand.takes_whole or not chosen:
        return None
    return max(asked_bytes(room.gpu.total_bytes, demand.gpu_bytes, demand.gpu_share) for room in chosen)


def claim_gpus(
    gpus: tuple[GpuRoom, ...] | None, model: str, claim: Claim, memory_left_bytes: int | None
) -> tuple[GpuRoom, ...] | None:
    """Take a placed shard off the GPUs."""
    if not gpus or not (claim.gpus or any(room.gpu.unified for room in gpus)):
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
