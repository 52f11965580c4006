"""How long somebody waits after wrong passwords: five are free, and each further one doubles the wait.

Counted for the name that was tried and for the address that tried: one address cannot try many names quickly, nor many
addresses one name. An address may be shared by many people, so more is free there. What lies back FORGOTTEN_S counts
no more, and so does everything of a name and its address once its password was right.
"""

from collections.abc import Mapping

import msgspec

FREE_BY_NAME = 5
FREE_BY_ADDRESS = 20
FIRST_WAIT_S = 2.0
LONGEST_WAIT_S = 300.0
FORGOTTEN_S = 3600.0
MOST_KEPT = 10_000
"""Of names and addresses; beyond it the oldest are forgotten."""


class Tries(msgspec.Struct, frozen=True):
    """Wrong passwords in a row, and when the last one came (monotonic seconds)."""

    count: int
    last_now: float


Throttle = Mapping[str, Tries]
"""Wrong passwords by `name:NAME` and by `address:ADDRESS`."""


def wait_s(throttle: Throttle, name: str, address: str, now: float) -> float:
    """Say how many seconds must pass before this name may be tried from this address; 0 when it may be now."""
    return max(
        _wait_s(throttle.get(f"name:{name}"), FREE_BY_NAME, now),
        _wait_s(throttle.get(f"address:{address}"), FREE_BY_ADDRESS, now),
    )


def after_wrong(throttle: Throttle, name: str, address: str, now: float) -> Throttle:
    """Count one more wrong password."""
    counted = dict(throttle)
    for key in (f"name:{name}", f"address:{address}"):
        # Taken out first, so that the order of the mapping is the order of the last tries.
        before = counted.pop(key, None)
        fresh = before is None or now - before.last_now >= FORGOTTEN_S
        counted[key] = Tries(1 if fresh or before is None else before.count + 1, now)
    for key in list(counted)[: max(0, len(counted) - MOST_KEPT)]:
        del counted[key]
    return counted


def after_right(throttle: Throttle, name: str, address: str) -> Throttle:
    """Forget what was wrong before."""
    return {
        key: tries for key, tries in throttle.items() if key not in (f"name:{name}", f"address:{address}")
    }


def _wait_s(tries: Tries | None, free: int, now: float) -> float:
    if tries is None or tries.count < free or now - tries.last_now >= FORGOTTEN_S:
        return 0.0
    wait = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** min(30, tries.count - free))
    return max(0.0, tries.last_now + wait - now)
