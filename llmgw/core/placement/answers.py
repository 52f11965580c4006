"""What every node answers if one more replica of a model had to be placed now, and what is asked of them."""

import msgspec

from llmgw.core.fleet.catalog import Profile
from llmgw.core.placement.demand import Demand
from llmgw.core.placement.filters import judge
from llmgw.core.placement.need import Said
from llmgw.core.placement.place import Placed, sift, too_few
from llmgw.core.placement.rooms import Rooms
from llmgw.core.placement.verdict import Verdict


class NodeAnswer(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What one node answers to one profile: a verdict, or that it fits."""

    node: str
    profile: str
    fits: bool
    verdict: Verdict | None = None


class ProfileNeeds(msgspec.Struct, frozen=True, kw_only=True):
    """What one shard of a profile asks of its node; None is what it does not ask for, or nobody knows.

    Attributes:
        memory_said: where `memory_bytes` was learned: "given" in the catalog, "estimated" from the header of the
            weights, or "measured"; None when there is none.
        estimated_bytes: of main memory, as estimated, whatever counts.
        measured_bytes: of main memory, the most that was measured, whatever counts.
        spare_bytes: of `memory_bytes`, for prompts that the engine may keep in the course of time.
        gpu_bytes: on each GPU.
        gpu_share: of each GPU's memory, 0 to 1.
        disk_bytes: where the weights are still to be fetched.
    """

    profile: str
    memory_bytes: int | None = None
    memory_said: Said | None = None
    estimated_bytes: int | None = None
    measured_bytes: int | None = None
    spare_bytes: int = 0
    gpus: int = 0
    gpu_class: str | None = None
    gpu_bytes: int | None = None
    gpu_share: float | None = None
    disk_bytes: int | None = None
    nodes: int = 1
    fabric: str | None = None


class NextReplica(msgspec.Struct, frozen=True, kw_only=True):
    """Where one more replica would go: its nodes by rank, and what decides."""

    profile: str
    nodes: tuple[str, ...]
    because: str
    fabric: str | None = None


def needs_of(profile: Profile, demand: Demand) -> ProfileNeeds:
    """Show what a profile asks for."""
    return ProfileNeeds(
        profile=profile.name,
        memory_bytes=demand.memory_bytes,
        memory_said=None if demand.memory_bytes is None else demand.memory_said,
        estimated_bytes=demand.estimated_bytes,
        measured_bytes=demand.measured_bytes,
        spare_bytes=demand.spare_bytes,
        gpus=demand.gpus,
        gpu_class=demand.gpu_class,
        gpu_bytes=demand.gpu_bytes,
        gpu_share=demand.gpu_share,
        disk_bytes=demand.disk_bytes,
        nodes=demand.nodes,
        fabric=demand.fabric,
    )


def next_replica(placed: Placed) -> NextReplica:
    """Show where a replica would go."""
    return NextReplica(
        profile=placed.profile.name,
        nodes=tuple(seat.node for seat in placed.seats),
        because=placed.because,
        fabric=placed.fabric,
    )


def answers(profile: Profile, demand: Demand, rooms: Rooms) -> list[NodeAnswer]:
    """Let every node answer to a profile, in the order of their names."""
    fitting = sift(demand, rooms).fitting if demand.nodes > 1 else 0
    found = []
    for room in rooms.rows:
        verdict = judge(demand, room)
        if verdict is None and demand.nodes > 1:
            verdict = too_few(demand, rooms, fitting, room)
        if verdict is not None:
            verdict = msgspec.structs.replace(verdict, profile=profile.name)
        found.append(
            NodeAnswer(node=room.node.id, profile=profile.name, fits=verdict is None, verdict=verdict)
        )
    return found
