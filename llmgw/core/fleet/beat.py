"""What a node says again and again: what changes by itself, and what is different since it was said last."""

from typing import TypeVar

import msgspec
from msgspec.structs import fields, replace

from llmgw.core.fleet.hardware import EngineInstall, Fabric, Filesystem, Gpu, Memory
from llmgw.core.fleet.weights import Holding


class ShardUse(msgspec.Struct, frozen=True, kw_only=True):
    """Memory that one engine process and its children hold, as the node measures it.

    Attributes:
        memory_bytes: of main memory now, mapped files and shared segments counted once; None when nobody can tell.
        peak_bytes: the most of it since the process began, as far as the node can prove it.
    """

    shard: str
    memory_bytes: int | None = None
    peak_bytes: int | None = None


class Beat(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A sign of life and what is said beside it. None means not said; () means that there is none.

    Attributes:
        engines: said when they differ from what was said last, as are `fabrics` and `weights`.
        gpus: with their memory and what holds it; said each time.
        uses: of the shards that run; said each time.
    """

    memory: Memory | None = None
    filesystems: tuple[Filesystem, ...] | None = None
    engines: tuple[EngineInstall, ...] | None = None
    gpus: tuple[Gpu, ...] | None = None
    fabrics: tuple[Fabric, ...] | None = None
    weights: tuple[Holding, ...] | None = None
    uses: tuple[ShardUse, ...] | None = None


B = TypeVar("B", bound=Beat)


def merged(earlier: B, later: B) -> B:
    """Put two into one: what only the earlier one said stays said."""
    said = {name: getattr(later, name) for name in _NAMES if getattr(later, name) is not None}
    return replace(earlier, **said)


_NAMES = tuple(field.name for field in fields(Beat))
