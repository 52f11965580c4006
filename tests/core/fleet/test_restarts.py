from llmgw.core.fleet.restarts import Attempts, after_failure, after_ready, is_failing, retry_at
from llmgw.core.ids import Generation


def test_waits_double_from_one_second_to_five_minutes() -> None:
    attempts, waits = Attempts(), []

    for _ in range(12):
        attempts = after_failure(attempts, now=100.0)
        waits.append(retry_at(attempts) - 100.0)

    assert waits == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]


def test_a_replica_that_never_failed_is_due_at_once() -> None:
    assert retry_at(Attempts()) == 0.0


def test_ten_minutes_of_health_wipe_earlier_failures_out_and_less_does_not() -> None:
    ready = after_ready(Attempts(count=7, failed_now=1.0), now=100.0)

    assert after_failure(ready, now=699.9).count == 8
    assert after_failure(ready, now=700.0).count == 1


def test_a_failure_ends_health() -> None:
    failed = after_failure(after_ready(Attempts(), now=1.0), now=2.0)

    assert failed == Attempts(count=1, failed_now=2.0, ready_now=None)


def test_a_replica_is_failing_when_the_last_that_was_heard_of_it_is_a_failure() -> None:
    failed = after_failure(Attempts(), now=1.0)

    assert is_failing(failed)
    assert not is_failing(after_ready(failed, now=2.0))
    assert not is_failing(Attempts())


def test_one_generation_fails_once_however_many_of_its_processes_do() -> None:
    once = after_failure(Attempts(), 1.0, Generation(1, 1))

    assert after_failure(once, 2.0, Generation(1, 1)) == once
    assert after_failure(once, 2.0, Generation(1, 2)).count == 2
