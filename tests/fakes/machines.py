"""Parts of machines, with defaults that a test need not spell."""

from typing import Any

from llmgw.core.fleet.hardware import Fabric, Filesystem, Gpu
from llmgw.core.fleet.weights import Holding, cache_name_of
from llmgw.core.units import GIB

HUB = "hf://lab/model/model.gguf"
"""Weights that are fetched."""


def a_gpu(index: int = 0, *, free_gb: float | None = 80, total_gb: float | None = 80, **given: Any) -> Gpu:
    """An H100 that nobody uses."""
    return Gpu(
        **{
            "uuid": f"GPU-{index}",
            "index": index,
            "gpu_class": "h100-80gb-hbm3",
            "total_bytes": None if total_gb is None else int(total_gb * GIB),
            "free_bytes": None if free_gb is None else int(free_gb * GIB),
        }
        | given
    )


def a_disk(free_gb: float | None = 100, **given: Any) -> Filesystem:
    """The filesystem that weights are fetched to."""
    free = None if free_gb is None else int(free_gb * GIB)
    return Filesystem(
        **{
            "mount": "/var",
            "device": "/dev/nvme0n1p2",
            "kind": "ext4",
            "total_bytes": 500 * GIB,
            "free_bytes": free,
            "holds": ("state", "weights"),
        }
        | given
    )


def a_filer(free_gb: float | None = 100, **given: Any) -> Filesystem:
    """A filesystem that nodes share, and that weights are fetched to."""
    return a_disk(
        free_gb, **{"mount": "/srv", "device": "filer:/models", "kind": "nfs4", "shared": True} | given
    )


def a_fabric(name: str = "ib-a", **given: Any) -> Fabric:
    """A fabric that the node is attached to."""
    return Fabric(**{"name": name, "adapter": "mlx5_0", "attached": True} | given)


def a_holding(source: str = HUB, *, size_gb: float = 20, **given: Any) -> Holding:
    """Weights that a node has in its cache."""
    name = cache_name_of(source)
    return Holding(
        **{
            "path": f"/var/weights/{name}",
            "source": source,
            "cache_name": name,
            "size_bytes": int(size_gb * GIB),
        }
        | given
    )
