"""Endpoints that failed: left out, probed, back."""

import pytest

from llmgw.core.routing.health import (
    FIRST_REST_S,
    HEALTHY,
    MOST_REST_S,
    Outcome,
    judge,
    may_take,
    when_done,
    when_taken,
)


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (200, Outcome.ANSWERED),
        (204, Outcome.ANSWERED),
        *[(status, Outcome.NEUTRAL) for status in (400, 401, 404, 413, 422, 429, 500)],
        *[(status, Outcome.FAILED) for status in (502, 503, 504)],
    ],
)
def test_a_status_tells_something_of_the_endpoint_or_nothing(status: int, outcome: Outcome) -> None:
    assert judge(status) is outcome


def test_a_failure_leaves_out_at_once_and_for_a_while() -> None:
    failed = when_done(HEALTHY, Outcome.FAILED, 100.0)

    assert not may_take(failed, 100.0)
    assert not may_take(failed, 100.0 + FIRST_REST_S - 0.01)
    assert may_take(failed, 100.0 + FIRST_REST_S)


def test_one_request_at_a_time_probes() -> None:
    failed = when_done(HEALTHY, Outcome.FAILED, 0.0)

    probing = when_taken(failed)

    assert not may_take(probing, 50.0)


def test_a_probe_that_is_answered_brings_it_back() -> None:
    probing = when_taken(when_done(HEALTHY, Outcome.FAILED, 0.0))

    assert when_done(probing, Outcome.ANSWERED, 2.0) == HEALTHY


def test_a_probe_that_tells_nothing_leaves_the_next_one_to_tell() -> None:
    probing = when_taken(when_done(HEALTHY, Outcome.FAILED, 0.0))

    after = when_done(probing, Outcome.NEUTRAL, 2.0)

    assert may_take(after, 2.0)
    assert after.failures == 1


def test_probes_that_fail_wait_twice_as_long_up_to_a_bound() -> None:
    health, now, rests = HEALTHY, 0.0, []
    for _ in range(8):
        health = when_done(when_taken(health), Outcome.FAILED, now)
        rests.append(health.rests_until - now)
        now = health.rests_until

    assert rests == [1, 2, 4, 8, 16, MOST_REST_S, MOST_REST_S, MOST_REST_S]


def test_requests_that_fail_together_are_one_failure() -> None:
    health = HEALTHY
    for _ in range(10):
        health = when_done(health, Outcome.FAILED, 0.0)

    assert (health.failures, health.rests_until) == (1, FIRST_REST_S)


def test_a_healthy_endpoint_stays_so_when_requests_tell_nothing() -> None:
    assert when_done(when_taken(HEALTHY), Outcome.NEUTRAL, 1.0) is HEALTHY
