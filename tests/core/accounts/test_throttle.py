from hypothesis import given
from hypothesis import strategies as st

from llmgw.core.accounts.throttle import (
    FORGOTTEN_S,
    FREE_BY_ADDRESS,
    FREE_BY_NAME,
    LONGEST_WAIT_S,
    MOST_KEPT,
    Throttle,
    after_right,
    after_wrong,
    wait_s,
)


def wrong(
    count: int, name: str = "ada", address: str = "10.0.0.1", throttle: Throttle | None = None
) -> Throttle:
    throttle = throttle or {}
    for _ in range(count):
        throttle = after_wrong(throttle, name, address, 0.0)
    return throttle


def test_five_wrong_passwords_slow_the_sixth_and_each_further_one_more() -> None:
    waits = [wait_s(wrong(count), "ada", "10.0.0.1", 0.0) for count in range(9)]

    assert waits == [0.0] * FREE_BY_NAME + [2.0, 4.0, 8.0, 16.0]


def test_a_wait_is_over_when_its_time_has_passed_and_never_longer_than_five_minutes() -> None:
    throttle = wrong(500)

    assert wait_s(throttle, "ada", "10.0.0.1", 0.0) == LONGEST_WAIT_S
    assert wait_s(throttle, "ada", "10.0.0.1", 299.0) == 1.0
    assert wait_s(throttle, "ada", "10.0.0.1", 300.0) == 0.0
    assert wait_s(wrong(1, throttle=throttle), "ada", "10.0.0.1", FORGOTTEN_S) == 0.0


def test_one_name_is_slow_from_every_address_and_others_are_not() -> None:
    throttle = wrong(FREE_BY_NAME)

    assert wait_s(throttle, "ada", "10.9.9.9", 0.0) > 0
    assert wait_s(throttle, "grace", "10.0.0.1", 0.0) == 0


def test_one_address_that_tries_many_names_is_slow_for_each_of_them() -> None:
    throttle: Throttle = {}
    for number in range(FREE_BY_ADDRESS):
        throttle = after_wrong(throttle, f"name-{number}", "10.0.0.1", 0.0)

    assert wait_s(throttle, "another", "10.0.0.1", 0.0) > 0
    assert wait_s(throttle, "another", "10.0.0.2", 0.0) == 0


def test_the_right_password_ends_all_waiting() -> None:
    assert after_right(wrong(9), "ada", "10.0.0.1") == {}


def test_what_is_kept_is_bounded_and_the_oldest_go_first() -> None:
    throttle: Throttle = {f"name:{number}": wrong(1)["name:ada"] for number in range(MOST_KEPT)}

    throttle = after_wrong(throttle, "ada", "10.0.0.1", 1.0)

    assert len(throttle) == MOST_KEPT
    assert "name:0" not in throttle
    assert {"name:ada", "address:10.0.0.1"} <= throttle.keys()


@given(st.lists(st.floats(0, 100_000), max_size=40))
def test_no_wait_is_negative_or_longer_than_the_longest(times: list[float]) -> None:
    throttle: Throttle = {}

    for now in sorted(times):
        throttle = after_wrong(throttle, "ada", "10.0.0.1", now)

    assert 0.0 <= wait_s(throttle, "ada", "10.0.0.1", max(times, default=0.0)) <= LONGEST_WAIT_S
