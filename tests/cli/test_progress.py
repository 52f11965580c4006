"""News of models while they come up."""

from typing import Any

from llmgw.cli.progress import Progress


def model(ready: int = 0, why_not: str = "gemma.0 is starting for 1 s") -> dict[str, Any]:
    return {"name": "gemma", "ready": ready, "wanted": 1, "why_not": None if ready else why_not}


def replica(phase: str, failures: int, reason: str | None = None) -> dict[str, Any]:
    return {"model": "gemma", "phase": phase, "failures": failures, "reason": reason}


def test_what_only_counts_seconds_is_said_once() -> None:
    progress = Progress()

    said = [
        progress.news(model(why_not=f"gemma.0 is starting for {n} s"), [replica("starting", 0)], n)
        for n in range(3)
    ]

    assert said == ["gemma is not ready yet: gemma.0 is starting for 0 s", None, None]


def test_a_failure_is_said_once_however_often_it_is_tried_again() -> None:
    progress = Progress()
    tries = [replica("failed", 1, "no file"), replica("starting", 1), replica("failed", 2, "no file")]

    said = [progress.news(model(), [one], 1.0) for one in tries]

    assert said[0] == "gemma failed: no file; it is tried again and again, see llmgw ctl replicas gemma"
    assert said[1:] == [None, None]


def test_another_reason_and_the_end_of_the_trouble_are_news() -> None:
    progress = Progress()
    progress.news(model(), [replica("failed", 1, "no file")], 1.0)

    other = progress.news(model(), [replica("failed", 2, "no memory")], 2.0)
    ready = progress.news(model(ready=1), [replica("ready", 2)], 3.25)

    assert other is not None
    assert "gemma failed: no memory" in other
    assert ready == "gemma is ready (1 of 1 replicas, after 3.2 s)"
