from hypothesis import given
from hypothesis import strategies as st

from llmgw.core.fleet.turnover import Starts, may_go, to_start

COUNTS = st.integers(0, 5)


def test_what_is_missing_starts_and_what_is_drained_gets_its_replacement_at_once() -> None:
    assert to_start(wanted=3, fresh=1, coming=0, drained=0, rolled=0) == Starts(2, 0)
    assert to_start(wanted=3, fresh=0, coming=0, drained=2, rolled=0) == Starts(1, 2)
    assert to_start(wanted=0, fresh=0, coming=0, drained=2, rolled=0) == Starts(0, 0)


def test_a_roll_starts_one_and_waits_while_anything_comes_goes_or_is_missing() -> None:
    assert to_start(wanted=3, fresh=0, coming=0, drained=0, rolled=3) == Starts(0, 1)
    assert to_start(wanted=3, fresh=1, coming=1, drained=0, rolled=3) == Starts(0, 0)
    assert to_start(wanted=3, fresh=1, coming=0, drained=0, rolled=3) == Starts(0, 0)
    assert to_start(wanted=3, fresh=0, coming=0, drained=0, rolled=2) == Starts(1, 0)


@given(COUNTS, COUNTS, COUNTS, COUNTS, COUNTS)
def test_never_more_are_fresh_than_wanted(
    wanted: int, fresh: int, coming: int, drained: int, rolled: int
) -> None:
    starts = to_start(wanted=wanted, fresh=fresh, coming=min(coming, fresh), drained=drained, rolled=rolled)

    assert starts.vacant >= 0
    assert starts.surge >= 0
    assert fresh + starts.vacant + starts.surge <= max(wanted, fresh)


@given(COUNTS, COUNTS, COUNTS)
def test_what_goes_leaves_as_many_ready_as_are_wanted_or_were(
    wanted: int, fresh_ready: int, old_ready: int
) -> None:
    going = may_go(wanted=wanted, fresh_ready=fresh_ready, old_ready=old_ready)

    assert 0 <= going <= old_ready
    assert fresh_ready + old_ready - going >= min(wanted, fresh_ready + old_ready)
