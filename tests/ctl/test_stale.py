"""What ctl says of replicas that run an earlier profile."""

from pathlib import Path
from typing import Any

from fakes.operations import FakeOperations

from llmgw.ctl.stale import stale_lines

CHANGED = """models:
  - name: gemma
    profiles:
      - {name: cpu, engine: llama.cpp, weights: file:///srv/models/other.gguf}
"""
LINE = "gemma: 1 replica is stale: llmgw ctl models roll gemma\n"


def replica(model: str, **told: Any) -> dict[str, Any]:
    return {"model": model, "phase": "ready", "leaving": False, "going": None, "stale": "stale"} | told


def test_apply_says_what_makes_running_replicas_current(ctl, operations: FakeOperations) -> None:
    Path("catalog.yaml").write_text(CHANGED)

    tried = ctl("apply", "-f", "catalog.yaml", "--dry-run")
    done = ctl("apply", "-f", "catalog.yaml")
    again = ctl("apply", "-f", "catalog.yaml")

    assert "stale" not in tried.stdout
    assert done.stdout.endswith(LINE)
    assert again.stdout.endswith(LINE)


def test_status_and_explain_say_so_too(ctl, operations: FakeOperations) -> None:
    before = ctl("status").stdout
    Path("catalog.yaml").write_text(CHANGED)
    ctl("apply", "-f", "catalog.yaml")

    after = [ctl("status").stdout, ctl("explain", "gemma").stdout]

    assert "stale" not in before
    assert all(text.endswith(LINE) for text in after)


def test_only_replicas_that_stay_are_counted_model_by_model() -> None:
    replicas = [
        replica("a"),
        replica("a", phase="starting"),
        replica("a", phase="failed"),
        replica("a", leaving=True),
        replica("a", going="it is rolled"),
        replica("a", stale="current"),
        replica("b"),
    ]

    every, one = stale_lines(replicas), stale_lines(replicas, ["b"])

    assert every == [
        "a: 2 replicas are stale: llmgw ctl models roll a",
        "b: 1 replica is stale: llmgw ctl models roll b",
    ]
    assert one == every[1:]
