"""How long to wait before trying again."""


def full_jitter(attempt: int, share: float, *, first_s: float = 0.5, most_s: float = 15.0) -> float:
    """Wait before reconnecting: anywhere between zero and a bound that doubles, so a fleet never returns in lockstep.

    Args:
        attempt: how many attempts have failed already, from 0.
        share: a random number in [0, 1).
        first_s: the bound of the first wait, seconds.
        most_s: the bound never grows past this, seconds.

    Returns:
        Seconds to wait.
    """
    return share * doubled(attempt, first_s=first_s, most_s=most_s)


def doubled(attempt: int, *, first_s: float, most_s: float) -> float:
    """Double `first_s` `attempt` times, up to `most_s`; seconds."""
    # 2**attempt grows without bound for a peer that is away for days.
    return min(most_s, first_s * float(2 ** min(attempt, 32)))
