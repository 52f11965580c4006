"""What `llmgw up` tells of models while they come up: each piece of news once, a failure once for each reason."""

from collections.abc import Sequence
from typing import Any


class Progress:
    """Remembers what was said of each model."""

    def __init__(self) -> None:
        self._said: dict[str, str] = {}

    def news(self, model: dict[str, Any], replicas: Sequence[dict[str, Any]], seconds: float) -> str | None:
        """Say what is new of a model, or None.

        Args:
            model: as the admin API shows it.
            replicas: all replicas that it shows.
            seconds: since llmgw is up.
        """
        name = model["name"]
        if model["ready"]:
            line = f"{name} is ready ({model['ready']} of {model['wanted']} replicas, after {seconds:.1f} s)"
            return self._once(name, "ready", line)
        mine = [one for one in replicas if one["model"] == name]
        failed = next((one for one in mine if one["phase"] == "failed"), None)
        if failed is not None:
            line = f"{name} failed: {failed['reason']}; it is tried again and again, see llmgw ctl replicas {name}"
            return self._once(name, _steady(f"failed: {failed['reason']}"), line)
        # The next try of one that failed is no news: it goes on as before, or another reason comes.
        if any(one["failures"] for one in mine):
            return None
        return self._once(
            name, _steady(str(model["why_not"])), f"{name} is not ready yet: {model['why_not']}"
        )

    def _once(self, name: str, news: str, line: str) -> str | None:
        if self._said.get(name) == news:
            return None
        self._said[name] = news
        return line


def _steady(text: str) -> str:
    # The words change with every second that passes; only a change of what they say is news.
    return "".join(c for c in text if not c.isdigit())
