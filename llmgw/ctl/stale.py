"""Replicas that run what the catalog said earlier, and the command that makes them current."""

from collections.abc import Collection, Sequence
from typing import Any

from llmgw.ctl.render import plain

_RUNNING = ("starting", "ready")


def stale_lines(replicas: Sequence[dict[str, Any]], models: Collection[str] | None = None) -> list[str]:
    """Say of each model how many of its replicas are stale: `gemma: 1 replica is stale: llmgw ctl models roll gemma`.

    Args:
        replicas: all of them, as the admin API shows them.
        models: tell of these alone; None for all.
    """
    counts: dict[str, int] = {}
    for one in replicas:
        # One that is on its way out needs nobody.
        going = one["leaving"] or one.get("going") or one["phase"] not in _RUNNING
        if one["stale"] == "stale" and not going and (models is None or one["model"] in models):
            counts[one["model"]] = counts.get(one["model"], 0) + 1
    return [
        f"{plain(model)}: {count} {'replica is' if count == 1 else 'replicas are'} stale: "
        f"llmgw ctl models roll {plain(model)}"
        for model, count in sorted(counts.items())
    ]
