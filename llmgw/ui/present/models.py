"""Models as an operator sees them: what is wanted, what is ready, and why not."""

from datetime import datetime

import msgspec

from llmgw.core.fleet.catalog import Catalog, Profile
from llmgw.core.fleet.serving import serving_shards
from llmgw.core.fleet.snapshot import Fleet
from llmgw.core.placement.explain import why_not_served
from llmgw.core.placement.room import rooms_of


class ModelView(msgspec.Struct, frozen=True, kw_only=True):
    """One model of the catalog and how it fares.

    Attributes:
        wanted: replicas that the catalog asks for.
        ready: replicas that may answer.
        why_not: why none may, in one sentence; None when one may.
    """

    name: str
    aliases: tuple[str, ...]
    fallback: tuple[str, ...]
    wanted: int
    ready: int
    profiles: tuple[Profile, ...]
    why_not: str | None


def model_views(
    catalog: Catalog, fleet: Fleet, *, hold: str | None, now: float, at: datetime
) -> tuple[ModelView, ...]:
    """Show every model, in the order of the catalog.

    Args:
        hold: why nothing is placed for now, or None.
    """
    serving = serving_shards(fleet)
    rooms = rooms_of(fleet)
    views = []
    for model in catalog.models:
        ready = len(serving.get(model.name, ()))
        why_not = None if ready else why_not_served(model, fleet, rooms, now=now, at=at, hold=hold)
        view = ModelView(
            name=model.name,
            aliases=model.aliases,
            fallback=model.fallback,
            wanted=model.replicas,
            ready=ready,
            profiles=model.profiles,
            why_not=why_not,
        )
        views.append(view)
    return tuple(views)
