from hypothesis import given
from hypothesis import strategies as st

from llmgw.core.backoff import doubled, full_jitter


def test_the_bound_doubles_and_stops_growing() -> None:
    assert [doubled(n, first_s=0.5, most_s=15.0) for n in range(7)] == [0.5, 1, 2, 4, 8, 15, 15]


def test_a_peer_that_is_away_for_days_breaks_nothing() -> None:
    assert doubled(10**9, first_s=0.5, most_s=15.0) == 15.0


@given(st.integers(0, 10**6), st.floats(0, 1, exclude_max=True))
def test_a_wait_lies_between_zero_and_its_bound(attempt: int, share: float) -> None:
    assert 0 <= full_jitter(attempt, share) <= doubled(attempt, first_s=0.5, most_s=15.0) <= 15.0
