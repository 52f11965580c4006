"""Choose the endpoint that takes a request: the least busy for its size, among those that did not fail lately."""

from collections.abc import Sequence
from typing import Protocol, TypeVar

from llmgw.core.routing.health import Health, may_take


class Candidate(Protocol):
    """What is looked at when endpoints are compared."""

    @property
    def outstanding(self) -> int:
        """How many requests it has now."""

    @property
    def capacity(self) -> int:
        """How many it serves at once."""

    @property
    def health(self) -> Health:
        """What is known of its failures."""


C = TypeVar("C", bound=Candidate)


def choose(candidates: Sequence[C], *, turn: int, now: float) -> C | None:
    """Choose among the endpoints that could serve a request.

    1. Endpoints that failed lately are left out, but never all of them: a doubtful one is better than none.
    2. The fewest requests for its capacity wins.
    3. Of equals, the one whose turn it is wins, so that idle replicas share requests that come one by one.

    Args:
        turn: a number that grows with every choice.
        now: monotonic seconds.

    Returns:
        The endpoint, or None when there is no candidate.
    """
    if len(candidates) == 1:
        return candidates[0]
    fit = [candidate for candidate in candidates if may_take(candidate.health, now)] or candidates
    return _least_busy(fit, turn)


def _least_busy(candidates: Sequence[C], turn: int) -> C | None:
    best: C | None = None
    least = float("inf")
    count = len(candidates)
    for step in range(count):
        candidate = candidates[(turn + step) % count]
        load = candidate.outstanding / candidate.capacity
        if load < least:
            best, least = candidate, load
    return best
