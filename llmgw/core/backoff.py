"""How long to wait before trying again."""

FORGIVES_ONE_S = 0.5
"""How long a connection works before one failed attempt is forgiven, seconds."""
LONGEST_S = 15.0
"""The longest wait between two attempts to connect, seconds; a server that starts waits longer for its nodes."""
MOST_FAILED = 5
"""Failed attempts that lead to the longest wait between connections."""


def full_jitter(attempt: int, share: float, *, first_s: float = 0.5, most_s: float = LONGEST_S) -> float:
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


def forgiven(failed: int, lasted_s: float) -> int:
    """Count the failures that still stand after a connection that worked for a while.

    Each half second that it lasted takes one back, so from the longest wait a few seconds lead back to the start: the
    next restart of a server is waited for shortly, however long the last one took. A server that hangs up at once
    takes nothing back, and the waits for it grow as if it were away. Nothing is dialled more often than about twice a
    second on the whole, because what lasts shorter is waited for longer.

    Args:
        failed: attempts that have failed in a row before.
        lasted_s: how long the connection worked, seconds; 0 when it never did.
    """
    # Failures past the longest wait change nothing, so they need not be taken back either.
    counted = min(failed, MOST_FAILED)
    return max(0, counted - int(lasted_s / FORGIVES_ONE_S))


def doubled(attempt: int, *, first_s: float, most_s: float) -> float:
    """Double `first_s` `attempt` times, up to `most_s`; seconds."""
    # 2**attempt grows without bound for a peer that is away for days.
    return min(most_s, first_s * float(2 ** min(attempt, 32)))
