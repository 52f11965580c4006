"""How replicas are replaced without fewer of them being ready: how many new ones start, and how many old ones may go.

*Fresh* replicas are meant to stay. *Old* ones serve until a fresh one is ready in their place: those on a node that is
drained are replaced all at once, those that are rolled one by one.
"""

import msgspec


class Starts(msgspec.Struct, frozen=True):
    """How many replicas to start.

    Attributes:
        vacant: for which nothing runs at all.
        surge: beside old ones that they replace.
    """

    vacant: int
    surge: int


def to_start(*, wanted: int, fresh: int, coming: int, drained: int, rolled: int) -> Starts:
    """Count what to start.

    Args:
        wanted: replicas that should run.
        fresh: those that are meant to stay.
        coming: fresh ones that are not ready yet, and any that are just ending; a roll waits for both.
        drained: old ones on nodes that are drained.
        rolled: old ones that are rolled.
    """
    missing = max(0, wanted - fresh)
    vacant = max(0, missing - drained - rolled)
    # The next of a roll begins when the one before is over: nothing coming, nothing still to go.
    is_over = not coming and not drained and fresh + rolled <= wanted
    one_rolled = 1 if rolled and is_over and not vacant else 0
    return Starts(vacant, min(missing - vacant, drained + one_rolled))


def may_go(*, wanted: int, fresh_ready: int, old_ready: int) -> int:
    """Count the old ones that may go now: what is ready beyond what is wanted."""
    return min(old_ready, max(0, fresh_ready + old_ready - wanted))
