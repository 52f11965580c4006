"""What a node has left: what is free on it now, less what is promised to shards that do not show in it yet.

Free memory alone would promise too much: weights that an engine maps from a file count as free to the kernel for as
long as they could be read again. So what all shards on the node were promised may not exceed its memory in all either.
"""

from collections.abc import Iterable, Mapping

import msgspec
from msgspec.structs import replace

from llmgw.core.fleet.shards import LIVE, Claim, Phase, ShardState
from llmgw.core.fleet.snapshot import Node
from llmgw.core.placement.demand import Demand
from llmgw.core.placement.disk import DiskRoom, disk_room, partial_downloads, promise, promises
from llmgw.core.placement.gpus import (
    PROMISED,
    GpuRoom,
    Kind,
    choose_gpus,
    claim_gpus,
    claimed_gpu_bytes,
    gpu_rooms,
    kinds_of,
)
from llmgw.core.units import GIB


class Room(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One node and what may still be placed on it. None is what the node does not say.

    Attributes:
        free_bytes: of main memory, after all promises.
        claimed_bytes: of main memory, promised to the shards on it; already taken off free_bytes.
        gpu_kinds: the GPUs by their kind.
        unified: uuids of GPUs whose memory is main memory.
        disk: what weights are fetched to.
        partial: bytes of unfinished downloads on it, by their name in the cache.
        holds: weights that need not be fetched, by their source and by their name in a cache.
        fabrics: the networks that it is attached to.
        copies: shards of each model on it, by model name.
        failures: failed shards of each model on it, by model name.
        engines: names of the engines that were seen to run.
    """

    node: Node
    free_bytes: int | None = None
    claimed_bytes: int = 0
    gpus: tuple[GpuRoom, ...] | None = None
    gpu_kinds: tuple[Kind, ...] | None = None
    unified: frozenset[str] = frozenset()
    disk: DiskRoom | None = None
    partial: Mapping[str, int] = {}
    holds: frozenset[str] = frozenset()
    fabrics: frozenset[str] | None = None
    copies: Mapping[str, int] = {}
    failures: Mapping[str, int] = {}
    engines: frozenset[str] | None = None


def copied(room: Room) -> Iterable[str]:
    """List the models of which there are copies on it."""
    return room.copies


def coming(room: Room) -> Iterable[str]:
    """List the weights of which it has a part, or which it was promised room for."""
    return (*room.partial, *room.disk.promised) if room.disk else room.partial


def room_of(node: Node) -> Room:
    """Work out the room of a node, by what it says itself; what it shares with others is not in it yet."""
    machine, shards = node.machine, node.shards.values()
    unified = _unified(node)
    claimed, free = _memory(node, unified)
    partial = partial_downloads(node.weights) if node.weights else {}
    copies, failures = _counted(shards) if shards else ({}, {})
    gpus = gpu_rooms(machine.gpus, shards, free)
    return Room(
        node=node,
        free_bytes=free,
        claimed_bytes=claimed,
        gpus=gpus,
        gpu_kinds=kinds_of(gpus),
        unified=unified,
        disk=disk_room(machine.filesystems, promises(shards, partial)) if machine.filesystems else None,
        partial=partial,
        holds=_held(node),
        fabrics=None
        if machine.fabrics is None
        else frozenset([f.name for f in machine.fabrics if f.attached]),
        copies=copies,
        failures=failures,
        engines=None
        if node.engines is None
        else frozenset([e.engine for e in node.engines if not e.problem]),
    )


def _counted(shards: Iterable[ShardState]) -> tuple[dict[str, int], dict[str, int]]:
    copies: dict[str, int] = {}
    failures: dict[str, int] = {}
    for shard in shards:
        count = failures if shard.phase == Phase.FAILED else copies
        count[shard.model] = count.get(shard.model, 0) + 1
    return copies, failures


def _held(node: Node) -> frozenset[str]:
    if not node.weights:
        return frozenset()
    complete = [held for held in node.weights if held.complete]
    return frozenset([name for held in complete for name in (held.source, held.cache_name) if name])


def _memory(node: Node, unified: frozenset[str]) -> tuple[int, int | None]:
    """Work out how much main memory is promised in all, and how much is left."""
    promised = claimed = 0
    for shard in node.shards.values():
        if shard.phase in LIVE:
            taken = _claim_of(shard, unified)
            claimed += taken
            promised += taken if shard.phase in PROMISED else 0
    memory = node.machine.memory
    bounds = []
    if memory.available_bytes is not None:
        bounds.append(memory.available_bytes - promised)
    if memory.total_bytes is not None:
        bounds.append(memory.total_bytes - claimed)
    return claimed, min(bounds, default=None)


def _unified(node: Node) -> frozenset[str]:
    return frozenset([gpu.uuid for gpu in node.machine.gpus or () if gpu.unified])


def _claim_of(shard: ShardState, unified: frozenset[str]) -> int:
    if shard.claim is not None:
        return _taken(shard.claim, unified)
    return 0 if shard.min_memory_gb is None else int(shard.min_memory_gb * GIB)


def _taken(claim: Claim, unified: frozenset[str]) -> int:
    """Say how much main memory a claim takes, that of GPUs which share it included."""
    taken = claim.memory_bytes or 0
    if unified and claim.gpu_bytes:
        taken += claim.gpu_bytes * len(unified.intersection(claim.gpus))
    return taken


def memory_asked(demand: Demand, room: Room) -> int | None:
    """Say how much main memory of this node a demand asks for, that of GPUs which share it included; None for none."""
    if not demand.gpus or demand.takes_whole or not room.unified:
        return demand.memory_bytes
    return _taken(claim_of(demand, room), room.unified)


def disk_asked(demand: Demand, room: Room) -> int:
    """Say how many bytes of this node's disk a demand asks for: nothing where its weights are, or are coming to."""
    name = demand.cache_name
    if not demand.disk_bytes or name is None or room.disk is None or is_held(demand, room):
        return 0
    to_come = max(0, demand.disk_bytes - room.partial.get(name, 0))
    return max(0, to_come - room.disk.promised.get(name, 0))


def is_held(demand: Demand, room: Room) -> bool:
    """Tell whether the weights are there, complete."""
    return demand.source in room.holds or (demand.cache_name is not None and demand.cache_name in room.holds)


def claim_of(demand: Demand, room: Room) -> Claim:
    """Say what a shard is promised on a node that it fits on."""
    chosen = choose_gpus(demand, room.gpus) if demand.gpus else ()
    fetches = None if is_held(demand, room) else demand.cache_name
    return Claim(
        memory_bytes=demand.memory_bytes,
        gpus=tuple(one.gpu.uuid for one in chosen),
        gpu_bytes=claimed_gpu_bytes(demand, chosen),
        disk_bytes=demand.disk_bytes if fetches else None,
        fetches=fetches,
    )


def claim(room: Room, model: str, claim: Claim) -> Room:
    """Take a newly placed shard off the room."""
    taken = _taken(claim, room.unified)
    free = None if room.free_bytes is None else room.free_bytes - taken
    gpus = claim_gpus(room.gpus, model, claim, free)
    return replace(
        room,
        free_bytes=free,
        claimed_bytes=room.claimed_bytes + taken,
        gpus=gpus,
        gpu_kinds=room.gpu_kinds if gpus is room.gpus else kinds_of(gpus),
        disk=_claimed_disk(room, model, claim),
        copies={**room.copies, model: room.copies.get(model, 0) + 1},
    )


def _claimed_disk(room: Room, model: str, claim: Claim) -> DiskRoom | None:
    if room.disk is None or claim.disk_bytes is None:
        return room.disk
    name = claim.fetches or model
    return promise(room.disk, name, max(0, claim.disk_bytes - room.partial.get(name, 0)))
