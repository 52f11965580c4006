"""Records with something wrong: held by another agent, of a later version, of a pid that is a stranger's now."""

import contextlib
import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from real.house import wait_for

from faults.kept import AGENT, MODEL, Kept
from faults.stage import Process, Stage
from faults.tally import Tally


def run(tally: Tally, root: Path) -> None:
    """Play each of them once a round."""
    with Stage(root, tally) as stage:
        kept = Kept(stage)
        for number in range(1, tally.rounds + 1):
            _second_agent(kept, number)
            _later_version(kept, number)
            _reused_pid(kept, number)
            tally.say(f"round {number}: done")
        stage.check_nothing_left()


def _second_agent(kept: Kept, number: int) -> None:
    """Start a second agent on the same folder: it says who holds it and ends; the first one notices nothing."""
    stage, tally = kept.stage, kept.stage.tally
    first, folder = stage.house.processes[AGENT], str(stage.root / AGENT)
    said = _ended_with(stage, "second", 1, node="n2", state_dir=folder)
    clear = f"pid {first.pid}" in said and folder in said
    tally.expect(clear, f"round {number}: the second does not say who holds the folder:\n{said}")
    tally.expect(first.poll() is None, f"round {number}: the first agent ended")
    kept.check(number)


def _later_version(kept: Kept, number: int) -> None:
    """Let an agent find records of a later version, of a running engine and of one that is gone.

    It must say so, leave the engine alone and start no second one; the version that wrote the record adopts it again.
    """
    stage, tally = kept.stage, kept.stage.tally
    stage.kill_agent(AGENT)
    record = _record(stage)
    written = record.read_bytes()
    gone = _of_later_version(record)
    said = len(stage.house.log(AGENT))
    stage.start_agent(AGENT)
    stage.wait_nodes(AGENT)
    _wait_told(stage)
    kept.check_alone(number)
    words = stage.house.log(AGENT)[said:]
    clear = re.search(r"version\D{0,20}99\b", words) and "Traceback" not in words
    tally.expect(clear, f"round {number}: no clear word of the later version:\n{words}")
    gone.unlink(missing_ok=True)
    record.write_bytes(written)
    kept.next_agent(number)


def _of_later_version(record: Path) -> Path:
    """Make a record one of a later version; returns another such, of an engine that is gone."""
    later = json.loads(record.read_bytes()) | {"version": 99, "made_up_later": {"unknown": [1, 2]}}
    record.write_text(json.dumps(later))
    gone = record.with_name("gone.0.0.json")
    process = later["process"] | {"pid": 2**22 - 1}
    gone.write_text(json.dumps(later | {"shard": "gone.0.0", "process": process}))
    return gone


def _wait_told(stage: Stage) -> None:
    def told() -> Any:
        rows = stage.replicas(MODEL)
        return rows and (rows[0]["phase"] == "ready" or "99" in (rows[0]["reason"] or ""))

    wait_for("the replica is ready, or says why it is not", told, 20)


def _reused_pid(kept: Kept, number: int) -> None:
    """Let a record's pid belong to another program by the time that the next agent reads it."""
    stage, tally = kept.stage, kept.stage.tally
    stage.kill_agent(AGENT)
    os.kill(kept.engine.pid, signal.SIGKILL)
    with _stranger() as stranger:
        record = _record(stage)
        said = json.loads(record.read_bytes())
        said["process"]["pid"] = stranger.pid
        record.write_text(json.dumps(said))
        stage.start_agent(AGENT)
        stage.wait_nodes(AGENT)
        kept.wait_replaced()
        if not stranger.lives:
            tally.lost(f"round {number}: the stranger with the pid of the record was ended")
        tally.expect(kept.engine.pid != stranger.pid, f"round {number}: the stranger was adopted")


@contextlib.contextmanager
def _stranger() -> Iterator[Process]:
    """Run a program that is none of ours: in a session of its own, without the mark of a house or of an agent."""
    path = {"PATH": os.environ["PATH"]}
    with subprocess.Popen(["sleep", "600"], env=path, start_new_session=True) as process:
        try:
            yield Process(process.pid)
        finally:
            process.kill()


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
