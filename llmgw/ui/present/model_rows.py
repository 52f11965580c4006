"""Models as rows of a table: what is wanted, what is ready, and why not."""

from collections.abc import Iterable, Mapping
from datetime import datetime

import msgspec

from llmgw.core.fleet.catalog import Catalog, Profile
from llmgw.core.fleet.orders import Roll
from llmgw.core.fleet.snapshot import Fleet
from llmgw.ui.present.models import ModelView, RollView, model_views


class ModelRow(msgspec.Struct, frozen=True, kw_only=True):
    """One model at a glance.

    Attributes:
        state: "ready", "short" (some replicas are), "down" (none is) or "resting" (none is wanted).
        ways: each of its profiles in a few words.
        why_not: why none may answer, in one sentence; None when one may, or when none is wanted.
        roll: how far its roll is; None when there is none under way.
    """

    name: str
    state: str
    aliases: tuple[str, ...]
    fallback: tuple[str, ...]
    wanted: int
    ready: int
    ways: tuple[str, ...]
    why_not: str | None
    roll: str | None


def model_rows(
    catalog: Catalog, fleet: Fleet, *, hold: str | None, now: float, at: datetime, rolls: Mapping[str, Roll]
) -> tuple[ModelRow, ...]:
    """Show every model, in the order of the catalog."""
    return rows_of(model_views(catalog, fleet, hold=hold, now=now, at=at, rolls=rolls))


def rows_of(views: Iterable[ModelView]) -> tuple[ModelRow, ...]:
    """Show models at a glance that are known in full."""
    return tuple(_row(view) for view in views)


def _row(view: ModelView) -> ModelRow:
    return ModelRow(
        name=view.name,
        state=_state(view),
        aliases=view.aliases,
        fallback=view.fallback,
        wanted=view.wanted,
        ready=view.ready,
        ways=tuple(_way(profile) for profile in view.profiles),
        why_not=view.why_not if view.wanted else None,
        roll=roll_text(view.roll),
    )


def roll_text(roll: RollView | None) -> str | None:
    """Say how far a roll is; None when there is none, or nothing of it is left to be told."""
    if roll is None or roll.state == "done":
        return None
    verb = "rolling" if roll.state == "rolling" else "the roll stopped"
    why = f": {roll.why}" if roll.why else ""
    return f"{verb}, {roll.replaced} of {roll.total} replaced{why}"


def _way(profile: Profile) -> str:
    on = f", {profile.gpus} GPU{'s' if profile.gpus > 1 else ''}" if profile.gpus else ""
    across = f", {profile.nodes} nodes" if profile.nodes > 1 else ""
    return f"{profile.name}: {profile.engine}{on}{across}"


def _state(view: ModelView) -> str:
    if view.wanted == 0 and view.ready == 0:
        return "resting"
    if view.ready == 0:
        return "down"
    return "ready" if view.ready >= view.wanted else "short"
