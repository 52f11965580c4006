"""Whether and when a failed replica starts again (RUN-8)."""

import msgspec

from llmgw.core.backoff import doubled
from llmgw.core.ids import Generation

FIRST_WAIT_S = 1.0
MOST_WAIT_S = 300.0
HEALTHY_AFTER_S = 600.0


class Attempts(msgspec.Struct, frozen=True, kw_only=True):
    """What is remembered of a replica's failures.

    Attributes:
        count: failures since it was last healthy for long.
        failed_now: monotonic seconds of the last failure.
        ready_now: monotonic seconds since which it has been ready, or None when it is not.
        failed: the generation that failed last; one generation fails once, however many processes it has.
    """

    count: int = 0
    failed_now: float = 0.0
    ready_now: float | None = None
    failed: Generation | None = None


def after_ready(attempts: Attempts, now: float) -> Attempts:
    """Remember that the replica became ready."""
    return msgspec.structs.replace(attempts, ready_now=now)


def after_failure(attempts: Attempts, now: float, generation: Generation | None = None) -> Attempts:
    """Count a failure; ten minutes of health wipe the earlier ones out.

    Args:
        generation: what failed; when it has failed already (another of its processes did), nothing is counted.
    """
    if generation is not None and generation == attempts.failed:
        return attempts
    healthy = attempts.ready_now is not None and now - attempts.ready_now >= HEALTHY_AFTER_S
    return Attempts(count=1 if healthy else attempts.count + 1, failed_now=now, failed=generation)


def is_failing(attempts: Attempts) -> bool:
    """Tell whether the last that was heard of the replica is a failure."""
    return attempts.count > 0 and attempts.ready_now is None


def retry_at(attempts: Attempts) -> float:
    """Tell when the next start is due, monotonic seconds: 1 s after the first failure, doubling to 5 min.

    A replica that never failed is due at once.
    """
    if not attempts.count:
        return attempts.failed_now
    wait = doubled(attempts.count - 1, first_s=FIRST_WAIT_S, most_s=MOST_WAIT_S)
    return attempts.failed_now + wait
