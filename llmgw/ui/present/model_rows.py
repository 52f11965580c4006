"""Models as rows of a table: what is wanted, what is ready, and why not."""

from collections.abc import Iterable

import msgspec

from llmgw.core.fleet.catalog import Profile
from llmgw.core.fleet.shards import Phase
from llmgw.core.fleet.snapshot import Fleet, is_leaving
from llmgw.ui.present.models import ModelView, RollView

_COMING = frozenset({Phase.PENDING, Phase.FETCHING, Phase.STARTING})


class ModelRow(msgspec.Struct, frozen=True, kw_only=True):
    """One model at a glance.

    Attributes:
        state: "ready", "short" (some replicas are), "starting" (none is, and one is on its way), "down" (none is) or
            "resting" (none is wanted).
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


def model_rows(views: Iterable[ModelView], fleet: Fleet) -> tuple[ModelRow, ...]:
    """Show models at a glance, in their order."""
    coming = {
        shard.model
        for node in fleet.nodes.values()
        for shard in node.shards.values()
        if shard.phase in _COMING and not is_leaving(node, shard)
    }
    return tuple(_row(view, view.name in coming) for view in views)


def _row(view: ModelView, is_coming: bool) -> ModelRow:
    return ModelRow(
        name=view.name,
        state=_state(view, is_coming),
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


def _state(view: ModelView, is_coming: bool) -> str:
    if view.wanted == 0 and view.ready == 0:
        return "resting"
    if view.ready == 0:
        return "starting" if is_coming else "down"
    return "ready" if view.ready >= view.wanted else "short"
