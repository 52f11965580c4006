"""Models as an operator sees them: what is wanted, what is ready, why not, and how far a roll is."""

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from llmgw.core.fleet.catalog import Catalog, Profile
from llmgw.core.fleet.orders import Roll
from llmgw.core.fleet.serving import Serving, serving_shards
from llmgw.core.fleet.snapshot import Fleet
from llmgw.core.placement.explain import why_not_served
from llmgw.core.placement.place import Refused, place
from llmgw.core.placement.rooms import rooms_of


class RollView(msgspec.Struct, frozen=True, kw_only=True):
    """How far the last roll of a model is.

    Attributes:
        state: "rolling", "done" or "stopped".
        total: replicas that were to be replaced; `replaced` of them are.
        why: what it waits for, or why it stopped; None when it goes on or is done.
    """

    model: str
    state: str
    total: int
    replaced: int
    why: str | None


class ModelView(msgspec.Struct, frozen=True, kw_only=True):
    """One model of the catalog and how it fares.

    Attributes:
        wanted: replicas that the catalog asks for.
        ready: replicas that may answer.
        why_not: why none may, in one sentence; None when one may.
        roll: the last roll since the server started; None when there was none.
    """

    name: str
    aliases: tuple[str, ...]
    fallback: tuple[str, ...]
    wanted: int
    ready: int
    profiles: tuple[Profile, ...]
    why_not: str | None
    roll: RollView | None = None


def roll_view(roll: Roll) -> RollView:
    """Show a roll."""
    total = len(roll.targets)
    return RollView(
        model=roll.model, state=str(roll.state), total=total, replaced=total - roll.left, why=roll.why
    )


def model_views(
    catalog: Catalog,
    fleet: Fleet,
    *,
    hold: str | None,
    now: float,
    at: datetime,
    rolls: Mapping[str, Roll] | None = None,
    refused: Mapping[str, Refused] | None = None,
) -> tuple[ModelView, ...]:
    """Show every model, in the order of the catalog.

    Args:
        hold: why nothing is placed for now, or None.
        rolls: the last roll of each model, by its name.
        refused: models of which a replica fits nowhere, as the last plan found; looked at here when None.
    """
    serving = serving_shards(fleet)
    refused = _refused(catalog, fleet, serving) if refused is None else refused
    views = []
    for model in catalog.models:
        ready = len(serving.get(model.name, ()))
        why_not = None if ready else why_not_served(model, fleet, refused, now=now, at=at, hold=hold)
        view = ModelView(
            name=model.name,
            aliases=model.aliases,
            fallback=model.fallback,
            wanted=model.replicas,
            ready=ready,
            profiles=model.profiles,
            why_not=why_not,
            roll=None if rolls is None or model.name not in rolls else roll_view(rolls[model.name]),
        )
        views.append(view)
    return tuple(views)


def _refused(catalog: Catalog, fleet: Fleet, serving: Mapping[str, Sequence[Serving]]) -> dict[str, Refused]:
    rooms = rooms_of(fleet)
    choices = [place(model, rooms) for model in catalog.models if model.name not in serving]
    return {choice.model: choice for choice in choices if isinstance(choice, Refused)}
