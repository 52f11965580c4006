"""What the server knows of a profile's needs beyond what the catalog says."""

from enum import StrEnum

import msgspec


class Said(StrEnum):
    """Where a need was learned."""

    GIVEN = "given"
    ESTIMATED = "estimated"
    MEASURED = "measured"


class Need(msgspec.Struct, frozen=True, kw_only=True):
    """What one shard of a profile needs of its node, as far as it is known; None is what nobody knows.

    Attributes:
        memory_bytes: of main memory, `spare_bytes` included.
        gpu_bytes: of the memory of each of its GPUs.
        gpu_share: how much of each GPU's memory, 0 to 1, must be free for the engine to start at all.
        disk_bytes: for the weights, where they are still to be fetched.
        said: where `memory_bytes` was learned.
        spare_bytes: of main memory, room for what the engine may keep of earlier prompts in the course of time.
        estimated_bytes: of main memory once every context is full, reckoned from the shape of the model; without
            `spare_bytes`.
        late_bytes: of `estimated_bytes`, what it comes to hold only when contexts fill; None when nobody knows, and all
            of it may be.
        measured_bytes: the most main memory that a shard like it was seen to hold.
    """

    memory_bytes: int | None = None
    gpu_bytes: int | None = None
    gpu_share: float | None = None
    disk_bytes: int | None = None
    said: Said = Said.ESTIMATED
    spare_bytes: int = 0
    estimated_bytes: int | None = None
    late_bytes: int | None = None
    measured_bytes: int | None = None


UNKNOWN = Need()
"""Nobody knows anything."""
