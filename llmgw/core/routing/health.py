"""Whether an endpoint that failed lately is asked again: left out at once, probed back by one request at a time.

```
            failed                      time is up               a request takes it
healthy ------------> left out ------------------> half-open ------------------------> probing
   ^                   ^                               ^                                  |
   |                   +--------- failed (longer) -----|----------------------------------+
   |                                                   +------------- neutral ------------+
   +------------------------------------------------------------------ answered ----------+
```
"""

from enum import Enum

import msgspec

from llmgw.core.backoff import doubled

FIRST_REST_S = 1.0
MOST_REST_S = 30.0


class Outcome(Enum):
    """What one request tells of the endpoint that had it."""

    ANSWERED = "answered"
    NEUTRAL = "neutral"
    FAILED = "failed"


class Health(msgspec.Struct, frozen=True):
    """What is known of an endpoint's failures.

    Attributes:
        failures: how many requests in a row have failed.
        rests_until: monotonic seconds until which it is left out.
        probing: a request is out to see whether it is back.
    """

    failures: int = 0
    rests_until: float = 0.0
    probing: bool = False


HEALTHY = Health()


def judge(status: int) -> Outcome:
    """Tell what an answer with this status says of its endpoint."""
    if status < 400:
        return Outcome.ANSWERED
    # A gateway's statuses mean that the engine cannot serve anybody now. A 500 may be the fault of this one request,
    # which would take out one replica after another if it counted; a 4xx, and a 429 for a busy engine, say even less.
    return Outcome.FAILED if status in (502, 503, 504) else Outcome.NEUTRAL


def may_take(health: Health, now: float) -> bool:
    """Tell whether a request may go to an endpoint in this state."""
    return health.failures == 0 or (health.rests_until <= now and not health.probing)


def when_taken(health: Health) -> Health:
    """Give the state after a request was sent: one that failed lately is being probed."""
    if health.failures == 0:
        return health
    return Health(health.failures, health.rests_until, probing=True)


def when_done(health: Health, outcome: Outcome, now: float) -> Health:
    """Give the state after a request ended."""
    if outcome is Outcome.ANSWERED:
        return HEALTHY
    if outcome is Outcome.NEUTRAL:
        return health if health.failures == 0 else Health(health.failures, health.rests_until)
    # Requests that were under way together fail together; that is one failure, not a reason to wait ever longer.
    if health.rests_until > now and not health.probing:
        return health
    rest_s = doubled(health.failures, first_s=FIRST_REST_S, most_s=MOST_REST_S)
    return Health(health.failures + 1, now + rest_s)
