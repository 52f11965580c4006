"""What a profile asks of each of its nodes: what the catalog gives, else what was measured, else what was estimated."""

from functools import lru_cache

import msgspec

from llmgw.core.fleet.catalog import Profile
from llmgw.core.fleet.weights import cache_name_of
from llmgw.core.placement.need import UNKNOWN, Need, Said
from llmgw.core.units import GIB


class Demand(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What one shard asks for; None or empty asks for nothing. Equal demands are answered equally.

    Attributes:
        source: the weights, as the catalog writes them; a node that holds them is preferred.
        cache_name: what they are called in a cache; None for weights that are never fetched.
        pool: the node must be of it.
        selector: labels the node must carry, in the order of their names.
        gpus: how many GPUs.
        gpu_class: their kind, or its beginning.
        gpu_bytes: memory of each that must be free, and that it takes; with no `gpu_share` either, it takes them whole.
        gpu_share: how much of each one's memory, 0 to 1, must be free, and that it takes.
        memory_bytes: main memory.
        memory_said: where `memory_bytes` was learned.
        estimated_bytes: what was estimated of it, whatever counts.
        measured_bytes: what was measured of it, whatever counts.
        spare_bytes: what of it is for prompts that the engine may keep in the course of time.
        disk_bytes: room for the weights where they are not; None for weights that are never fetched.
        nodes: how many nodes it takes, one shard on each.
        fabric: network that they must be attached to; "any" is one that they share.
    """

    engine: str
    source: str | None = None
    cache_name: str | None = None
    pool: str | None = None
    selector: tuple[tuple[str, str], ...] = ()
    gpus: int = 0
    gpu_class: str | None = None
    gpu_bytes: int | None = None
    gpu_share: float | None = None
    memory_bytes: int | None = None
    memory_said: Said = Said.GIVEN
    estimated_bytes: int | None = None
    measured_bytes: int | None = None
    spare_bytes: int = 0
    disk_bytes: int | None = None
    nodes: int = 1
    fabric: str | None = None

    @property
    def takes_whole(self) -> bool:
        """Whether it takes its GPUs for itself, for nobody knows how much of them it needs."""
        return self.gpus > 0 and self.gpu_bytes is None and self.gpu_share is None


def demand_of(profile: Profile, need: Need | None = None) -> Demand:
    """Put together what the catalog gives and what the server knows beyond; what is given wins.

    Args:
        need: what is known of this profile; None when nothing is.
    """
    need = need or UNKNOWN
    given = profile.min_memory_gb is not None
    cache_name = _cache_name(profile.weights)
    return Demand(
        engine=profile.engine,
        source=profile.weights,
        cache_name=cache_name,
        pool=profile.pool,
        selector=tuple(sorted(profile.node_selector.items())),
        gpus=profile.gpus,
        gpu_class=profile.gpu_class,
        gpu_bytes=_first(profile.min_gpu_memory_gb, need.gpu_bytes) if profile.gpus else None,
        gpu_share=need.gpu_share if profile.gpus else None,
        memory_bytes=_first(profile.min_memory_gb, need.memory_bytes),
        memory_said=Said.GIVEN if given else need.said,
        estimated_bytes=need.estimated_bytes,
        measured_bytes=need.measured_bytes,
        spare_bytes=0 if given else need.spare_bytes,
        # A path on the node is never fetched: the file is there, or the start says that it is not.
        disk_bytes=_first(profile.min_disk_gb, need.disk_bytes) if cache_name else None,
        nodes=profile.nodes,
        fabric=profile.fabric,
    )


@lru_cache(maxsize=4096)
def _cache_name(source: str) -> str | None:
    # Each plan asks for the names of the same few sources again, and a name is a hash.
    return cache_name_of(source)


def _first(given_gb: float | None, known_bytes: int | None) -> int | None:
    return known_bytes if given_gb is None else int(given_gb * GIB)
