"""Trouble with the folder in which an agent keeps its records: a clear error each time, and no engine is lost by it."""

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from real.house import wait_for

from faults.mount import Mount
from faults.stage import QUICK, Process, Stage
from faults.tally import Tally

MODEL = "kept"


def full(tally: Tally, root: Path) -> None:
    """Fill the disk under the records: what runs goes on, is adopted, and what cannot be recorded does not start."""
    with Mount(root / "n1") as disk, Stage(root, tally) as stage:
        row, engine = _begun(stage)
        for number in range(1, tally.rounds + 1):
            disk.fill()
            _next_agent(stage, number, row, engine)
            stage.apply(stage.model(MODEL), stage.model("more"))
            _check_refused(stage, number, "No space left on device")
            disk.empty()
            stage.wait_ready("more")
            _check_kept(stage, number, row, engine)
            stage.apply(stage.model(MODEL))
            tally.say(f"round {number}: done")
        stage.check_nothing_left()


def read_only(tally: Tally, root: Path) -> None:
    """Let the next agent find its folder read-only: it says so, looks after what runs, and starts nothing."""
    with Mount(root / "n1") as disk, Stage(root, tally) as stage:
        row, engine = _begun(stage)
        for number in range(1, tally.rounds + 1):
            stage.house.before["n1"] = disk.read_only()
            said = _next_agent(stage, number, row, engine)
            del stage.house.before["n1"]
            clear = "cannot be written" in said and str(disk.path) in said and "Traceback" not in said
            tally.expect(clear, f"round {number}: no clear word of the read-only folder:\n{said}")
            stage.apply(stage.model(MODEL), stage.model("more"))
            _check_refused(stage, number, "cannot be written", "Read-only file system")
            _next_agent(stage, number, row, engine)
            stage.wait_ready("more")
            stage.apply(stage.model(MODEL))
            tally.say(f"round {number}: done")
        stage.check_nothing_left()


def _check_refused(stage: Stage, number: int, *words: str) -> None:
    def failed() -> Any:
        return next((row for row in stage.replicas("more") if row["phase"] == "failed"), None)

    row = wait_for("the start has failed", failed, 30)
    clear = any(word in (row["reason"] or "") for word in words)
    stage.tally.expect(clear, f"round {number}: wanted {words} as the reason, found {row['reason']!r}")


def future_record(tally: Tally, root: Path) -> None:
    """Let an agent find records of a later version, of a running engine and of one that is gone.

    It must say so, leave the engine alone and start no second one; the version that wrote the record adopts it again.
    """
    with Stage(root, tally) as stage:
        row, engine = _begun(stage)
        for number in range(1, tally.rounds + 1):
            stage.house.kill("n1")
            record = _record(stage)
            written = record.read_bytes()
            gone = _of_later_version(record)
            said = len(stage.house.log("n1"))
            stage.start_agent("n1")
            stage.wait_nodes("n1")
            _check_untouched(stage, number, engine)
            words = stage.house.log("n1")[said:]
            clear = re.search(r"version\D{0,20}99\b", words) and "Traceback" not in words
            tally.expect(clear, f"round {number}: no clear word of the later version:\n{words}")
            gone.unlink(missing_ok=True)
            record.write_bytes(written)
            _next_agent(stage, number, row, engine)
            tally.say(f"round {number}: done")
        stage.check_nothing_left()


def _of_later_version(record: Path) -> Path:
    """Make a record one of a later version; returns another such, of an engine that is gone."""
    later = json.loads(record.read_bytes()) | {"version": 99, "made_up_later": {"unknown": [1, 2]}}
    record.write_text(json.dumps(later))
    gone = record.with_name("gone.0.0.json")
    process = later["process"] | {"pid": 2**22 - 1}
    gone.write_text(json.dumps(later | {"shard": "gone.0.0", "process": process}))
    return gone


def _check_untouched(stage: Stage, number: int, engine: Process) -> None:
    """Look whether the engine of a record that nobody can read is told of, lives, and is the only one."""

    def told() -> Any:
        rows = stage.replicas(MODEL)
        return rows and (rows[0]["phase"] == "ready" or "99" in (rows[0]["reason"] or ""))

    wait_for("the replica is ready, or says why it is not", told, 20)
    if not engine.lives:
        stage.tally.lost(f"round {number}: engine {engine.pid} was ended for its record")
    if stage.engines() != {engine.pid}:
        stage.tally.doubled(f"round {number}: engines {sorted(stage.engines())}, wanted {engine.pid} alone")


def two_agents(tally: Tally, root: Path) -> None:
    """Start a second agent on the same folder: it says who holds it and ends; the first one notices nothing."""
    with Stage(root, tally) as stage:
        row, engine = _begun(stage)
        first = stage.house.processes["n1"]
        for number in range(1, tally.rounds + 1):
            said = _ended_with(stage, "second", 1, node="n2", state_dir=str(root / "n1"))
            clear = f"pid {first.pid}" in said and str(root / "n1") in said
            tally.expect(clear, f"round {number}: the second does not say who holds the folder:\n{said}")
            tally.expect(first.poll() is None, f"round {number}: the first agent ended")
            _check_kept(stage, number, row, engine)
            tally.say(f"round {number}: {said.strip()[-300:]}")
        stage.check_nothing_left()


def reused_pid(tally: Tally, root: Path) -> None:
    """Let a record's pid belong to another program by the time that the next agent reads it."""
    with Stage(root, tally) as stage:
        _begun(stage)
        for number in range(1, tally.rounds + 1):
            [row] = stage.wait_ready(MODEL)
            stage.house.kill("n1")
            os.kill(row["pid"], signal.SIGKILL)
            with _stranger() as stranger:
                _reuse(_record(stage), stranger.pid)
                stage.start_agent("n1")
                stage.wait_nodes("n1")
                [again] = wait_for("a new engine serves", _other_than(stage, row["pid"]), 60)
                if not Process(stranger.pid).lives:
                    tally.lost(f"round {number}: the stranger with the pid of the record was ended")
                tally.expect(again["pid"] != stranger.pid, f"round {number}: the stranger was adopted")
            tally.say(f"round {number}: stranger {stranger.pid} untouched, engine {again['pid']}")
        stage.check_nothing_left()


def _stranger() -> Any:
    """Start a program that is none of ours: in a session of its own, without the mark of a house or of an agent."""

    class Stranger(subprocess.Popen[bytes]):
        def __exit__(self, *told: Any) -> None:
            self.kill()
            super().__exit__(*told)

    return Stranger(["sleep", "600"], env={"PATH": os.environ["PATH"]}, start_new_session=True)


def _reuse(record: Path, pid: int) -> None:
    said = json.loads(record.read_text())
    said["process"]["pid"] = pid
    record.write_text(json.dumps(said))


def _other_than(stage: Stage, pid: int) -> Callable[[], Any]:
    def found() -> Any:
        rows = stage.replicas(MODEL)
        return len(rows) == 1 and rows[0]["phase"] == "ready" and rows[0]["pid"] != pid and rows

    return found


# what all of them do


def _begun(stage: Stage) -> tuple[dict[str, Any], Process]:
    stage.begin("n1", nodes=QUICK)
    stage.apply(stage.model(MODEL))
    [row] = stage.wait_ready(MODEL)
    return row, Process(row["pid"])


def _next_agent(stage: Stage, number: int, row: dict[str, Any], engine: Process) -> str:
    """Kill the agent and start another, which must look after the same engine; returns what it said."""
    said = len(stage.house.log("n1"))
    stage.house.kill("n1")
    stage.start_agent("n1")
    _check_kept(stage, number, row, engine)
    return stage.house.log("n1")[said:]


def _check_kept(stage: Stage, number: int, row: dict[str, Any], engine: Process) -> None:
    stage.wait_nodes("n1")
    try:
        told = stage.wait_ready(MODEL, seconds=20)
    except AssertionError:
        told = stage.replicas(MODEL)
    found = [(one["pid"], one["phase"], one["reason"]) for one in told]
    if [one["pid"] for one in told] != [row["pid"]] or not engine.lives:
        stage.tally.lost(f"round {number}: engine {row['pid']} (alive: {engine.lives}); replicas now {found}")


def _record(stage: Stage) -> Path:
    [path] = (stage.root / "n1" / "records").glob("*.json")
    return path


def _ended_with(stage: Stage, name: str, status: int, **settings: Any) -> str:
    """Start an agent that must end by itself; returns what it said."""
    log = stage.root / f"{name}.log"
    said = log.stat().st_size if log.exists() else 0
    stage.start_agent(name, **settings)
    process = stage.house.processes.pop(name)
    try:
        found = process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(10)
        found = None
    words = log.read_bytes()[said:].decode(errors="replace")
    stage.tally.expect(found == status, f"agent {name} ended with {found}, wanted {status}:\n{words}")
    return words
