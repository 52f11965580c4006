from hypothesis import given
from hypothesis import strategies as st

from llmgw.core.backoff import FORGIVES_ONE_S, MOST_FAILED, doubled, forgiven, full_jitter


def test_the_bound_doubles_and_stops_growing() -> None:
    assert [doubled(n, first_s=0.5, most_s=15.0) for n in range(7)] == [0.5, 1, 2, 4, 8, 15, 15]


def test_a_peer_that_is_away_for_days_breaks_nothing() -> None:
    assert doubled(10**9, first_s=0.5, most_s=15.0) == 15.0


@given(st.integers(0, 10**6), st.floats(0, 1, exclude_max=True))
def test_a_wait_lies_between_zero_and_its_bound(attempt: int, share: float) -> None:
    assert 0 <= full_jitter(attempt, share) <= doubled(attempt, first_s=0.5, most_s=15.0) <= 15.0


def test_the_longest_wait_is_reached_with_the_failures_that_count() -> None:
    bounds = [doubled(n, first_s=0.5, most_s=15.0) for n in (MOST_FAILED - 1, MOST_FAILED)]

    assert bounds == [8.0, 15.0]


@given(st.integers(0, 10**6), st.floats(0, 100), st.floats(0, 100))
def test_what_lasted_longer_forgives_more_and_nothing_forgives_less_than_nothing(
    failed: int, lasted_s: float, more_s: float
) -> None:
    left = forgiven(failed, lasted_s)

    assert forgiven(failed, lasted_s + more_s) <= left <= min(failed, MOST_FAILED)
    assert forgiven(failed, 0.0) == min(failed, MOST_FAILED)


@given(st.integers(0, 10**6))
def test_a_connection_of_a_few_seconds_leads_back_to_the_shortest_wait(failed: int) -> None:
    assert forgiven(failed, MOST_FAILED * FORGIVES_ONE_S) == 0


@given(st.floats(0, 20), st.floats(0.25, 1, exclude_max=True))
def test_a_server_that_hangs_up_again_and_again_is_dialled_twice_a_second_at_most(
    lasted_s: float, share: float
) -> None:
    now, failed, dials = 0.0, 0, 0
    while now < 600:
        dials += 1
        failed = forgiven(failed, lasted_s)
        now += lasted_s + full_jitter(failed, share)
        failed += 1

    at_once = lasted_s < FORGIVES_ONE_S
    assert dials <= (MOST_FAILED + 1 + 600 / (15 * share) if at_once else 600 * 2)
