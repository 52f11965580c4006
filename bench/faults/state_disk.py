"""The disk under the records of an agent is full, or read-only: a clear error, and no engine is lost by it."""

from pathlib import Path
from typing import Any

from real.house import wait_for

from faults.kept import AGENT, MODEL, Kept
from faults.mount import Mount
from faults.stage import Stage
from faults.tally import Tally


def run(tally: Tally, root: Path) -> None:
    """Fill the disk, then let an agent find it read-only, once a round each."""
    with Mount(root / AGENT) as disk, Stage(root, tally) as stage:
        kept = Kept(stage)
        for number in range(1, tally.rounds + 1):
            _full(kept, disk, number)
            _read_only(kept, disk, number)
            tally.say(f"round {number}: done")
        stage.check_nothing_left()


def _full(kept: Kept, disk: Mount, number: int) -> None:
    """What runs goes on and is adopted, what cannot be recorded does not start until there is room."""
    stage = kept.stage
    disk.fill()
    kept.next_agent(number)
    stage.apply(stage.model(MODEL), stage.model("more"))
    _check_refused(stage, number, "No space left on device")
    disk.empty()
    stage.wait_ready("more")
    kept.check(number)
    _remove_more(stage)


def _read_only(kept: Kept, disk: Mount, number: int) -> None:
    """The agent says so, looks after what runs, and starts nothing; the one after it does."""
    stage, tally = kept.stage, kept.stage.tally
    stage.house.before[AGENT] = disk.read_only()
    said = kept.next_agent(number)
    del stage.house.before[AGENT]
    clear = "cannot be written" in said and str(disk.path) in said and "Traceback" not in said
    tally.expect(clear, f"round {number}: no clear word of the read-only folder:\n{said}")
    stage.apply(stage.model(MODEL), stage.model("more"))
    _check_refused(stage, number, "cannot be written", "Read-only file system")
    kept.next_agent(number)
    stage.wait_ready("more")
    _remove_more(stage)


def _remove_more(stage: Stage) -> None:
    """Stop the second engine and wait until it and its record are gone: a record that goes later would leave room."""
    stage.apply(stage.model(MODEL))
    wait_for(
        "the second engine is gone", lambda: len(stage.engines()) == 1 and not stage.replicas("more"), 30
    )


def _check_refused(stage: Stage, number: int, *words: str) -> None:
    """Look at why a start failed: one of `words` must say it."""

    def failed() -> Any:
        return next((row for row in stage.replicas("more") if row["phase"] == "failed"), None)

    row = wait_for("the start has failed", failed, 30)
    clear = any(word in (row["reason"] or "") for word in words)
    stage.tally.expect(clear, f"round {number}: wanted {words} as the reason, found {row['reason']!r}")
