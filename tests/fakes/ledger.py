"""What nodes said they have, and what a plan promised of it: reckoned from the bare facts, by no rule of placement."""

from collections.abc import Iterable
from math import ceil, inf

from llmgw.core.fleet.catalog import Profile
from llmgw.core.fleet.hardware import Filesystem
from llmgw.core.fleet.shards import LIVE, Claim, Phase, ShardState
from llmgw.core.fleet.snapshot import Fleet, Node
from llmgw.core.placement.need import Need
from llmgw.core.reconcile import Start
from llmgw.core.units import GIB

_COMING = (Phase.PENDING, Phase.FETCHING, Phase.STARTING)
_FETCHING = (Phase.PENDING, Phase.FETCHING)


class Ledger:
    """Adds up what is promised of each node, GPU and filesystem, and says where that is too much."""

    def __init__(self, fleet: Fleet, starts: Iterable[Start], needs: dict[str, Need]) -> None:
        self._fleet = fleet
        self._starts = list(starts)
        self._needs = needs

    def overdrawn(self) -> list[str]:
        """Say of what more is promised by these starts than there is."""
        found = []
        for node in self._fleet.nodes.values():
            mine = [start for start in self._starts if start.node == node.id]
            if mine:
                found += self._memory(node, mine) + self._gpus(node, mine)
        return found + self._disks()

    def _memory(self, node: Node, mine: list[Start]) -> list[str]:
        unified = {gpu.uuid for gpu in node.machine.gpus or () if gpu.unified}
        new = [self._claim(start) for start in mine]
        if not any(_memory_of(claim, unified) for claim in new):
            return []
        old = [(shard.phase, _old_memory(shard, unified)) for shard in node.shards.values()]
        taken = sum(_memory_of(claim, unified) for claim in new)
        coming = sum(size for phase, size in old if phase in _COMING)
        living = sum(size for phase, size in old if phase in LIVE)
        memory, found = node.machine.memory, []
        if memory.available_bytes is not None and taken + coming > memory.available_bytes:
            found.append(f"{node.id}: free memory")
        if memory.total_bytes is not None and taken + living > memory.total_bytes:
            found.append(f"{node.id}: memory in all")
        return found

    def _gpus(self, node: Node, mine: list[Start]) -> list[str]:
        found = []
        for gpu in node.machine.gpus or ():
            new = [start for start in mine if gpu.uuid in self._claim(start).gpus]
            if not new:
                continue
            here = [
                (shard.phase, shard.claim)
                for shard in node.shards.values()
                if shard.claim is not None and gpu.uuid in shard.claim.gpus and shard.phase in LIVE
            ]
            wholes = [claim for _, claim in here if claim.gpu_bytes is None]
            wholes += [self._claim(start) for start in new if self._claim(start).gpu_bytes is None]
            if gpu.problem is not None:
                found.append(f"{gpu.uuid}: it cannot be used")
            if wholes and len(here) + len(new) > 1:
                found.append(f"{gpu.uuid}: it was taken whole, and others are on it")
            if gpu.unified:
                continue
            asked = sum(self._asked_of(start.spec.profile, gpu.total_bytes) for start in new)
            coming = sum(claim.gpu_bytes or 0 for phase, claim in here if phase in _COMING)
            living = sum(claim.gpu_bytes or 0 for _, claim in here)
            if gpu.free_bytes is not None and asked + coming > gpu.free_bytes:
                found.append(f"{gpu.uuid}: free memory")
            if gpu.total_bytes is not None and asked + living > gpu.total_bytes:
                found.append(f"{gpu.uuid}: memory in all")
        return found

    def _disks(self) -> list[str]:
        before, after = self._downloads([]), self._downloads(self._starts)
        found = []
        for pool, sums in after.items():
            # What was promised before may be more than there is, somebody else may have filled the disk since.
            if sums != before.get(pool) and sum(sums.values()) > self._free(pool):
                found.append(f"{pool}: disk")
        return found

    def _downloads(self, starts: list[Start]) -> dict[str, dict[str, int]]:
        """Add up what is still to be fetched to each filesystem, each source once."""
        sums: dict[str, dict[str, int]] = {}
        for node in self._fleet.nodes.values():
            claims = [(s.claim, s.shard) for s in node.shards.values() if s.phase in _FETCHING]
            claims += [(start.spec.claim, start.spec.shard) for start in starts if start.node == node.id]
            partial = {h.cache_name: h.size_bytes or 0 for h in node.weights or () if not h.complete}
            for disk in node.machine.filesystems or ():
                for claim, shard in claims:
                    if claim is not None and claim.disk_bytes is not None:
                        name = claim.fetches or shard
                        left = max(0, claim.disk_bytes - partial.get(name, 0))
                        of_pool = sums.setdefault(_pool(node, disk), {})
                        of_pool[name] = max(left, of_pool.get(name, 0))
        return sums

    def _free(self, pool: str) -> float:
        """Say what is free of a filesystem, by what the nodes say that have it."""
        said = [
            disk.free_bytes
            for node in self._fleet.nodes.values()
            for disk in node.machine.filesystems or ()
            if _pool(node, disk) == pool and disk.free_bytes is not None
        ]
        return max(said, default=inf)

    def _claim(self, start: Start) -> Claim:
        assert start.spec.claim is not None
        return start.spec.claim

    def _asked_of(self, profile: Profile, total: int | None) -> int:
        need = self._needs.get(profile.fingerprint(), Need())
        given = profile.min_gpu_memory_gb
        asked = need.gpu_bytes or 0 if given is None else int(given * GIB)
        share = 0 if need.gpu_share is None or total is None else ceil(need.gpu_share * total)
        return max(asked, share)


def _memory_of(claim: Claim, unified: set[str]) -> int:
    shared = sum(uuid in unified for uuid in claim.gpus)
    return (claim.memory_bytes or 0) + (claim.gpu_bytes or 0) * shared


def _old_memory(shard: ShardState, unified: set[str]) -> int:
    if shard.claim is not None:
        return _memory_of(shard.claim, unified)
    return 0 if shard.min_memory_gb is None else int(shard.min_memory_gb * GIB)


def _pool(node: Node, disk: Filesystem) -> str:
    """Name a filesystem; that of one node alone by the node too."""
    return str(disk.device) if disk.shared else f"{node.id} {disk.device}"
