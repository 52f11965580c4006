"""What a profile needs of a node."""

import msgspec

from llmgw.core.fleet.catalog import Profile
from llmgw.core.units import GIB


class Demand(msgspec.Struct, frozen=True, kw_only=True):
    """What one replica asks for; None or empty asks for nothing."""

    engine: str
    memory_bytes: int | None = None
    selector: dict[str, str] = {}


def demand_of(profile: Profile) -> Demand:
    """Read what a profile asks for."""
    memory = None if profile.min_memory_gb is None else int(profile.min_memory_gb * GIB)
    return Demand(engine=profile.engine, memory_bytes=memory, selector=profile.node_selector)
