"""Engines that misbehave: each must end in the right state, with its reason and last words, and leave no process.

Each round plays them all at once on one node, then those that go bad later once more under an agent that only adopted
them. An engine that never gets ready has five minutes, which nothing shortens: it is played in the long form alone.
"""

import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from real.house import wait_for

from faults.stage import QUICK, Process, Stage
from faults.tally import Tally

STOP_LIMIT_S = 25.0
NEVER_READY_S = 5 * 60.0


def run(tally: Tally, root: Path) -> None:
    """Play every misbehaviour once a round."""
    if not tally.short:
        tally.rounds = min(tally.rounds, 3)
    with Stage(root, tally) as stage:
        stage.begin("n1", nodes=QUICK)
        for number in range(1, tally.rounds + 1):
            _dying(stage)
            _port_taken(stage, number)
            for adopted in (False, True):
                _killed_from_outside(stage, adopted)
            _stubborn(stage, number)
            tally.say(f"round {number}: done")
        if not tally.short:
            _never_ready(stage)
        stage.check_nothing_left()


def _dying(stage: Stage) -> None:
    stage.apply(
        stage.model("dies-at-once", "--die", "7"),
        stage.model("dies-later", "--load", "0.3", "--die-after", "1"),
    )
    at_once = _failed(stage, "dies-at-once")
    _check(stage, at_once, status=7, reason="invalid magic characters", tail="invalid magic characters")
    later = _failed(stage, "dies-later")
    _check(stage, later, status=3, reason="CUDA error", tail="CUDA error")
    stage.apply()
    _gone(stage, "both dying engines", [Process(pid) for pid in stage.engines()])


def _port_taken(stage: Stage, number: int) -> None:
    go = stage.root / f"go-{number}"
    stage.apply(stage.model("port-taken", "--hold", str(go)))
    told = Path(f"{go}.port")
    wait_for("the engine knows its port", told.exists, 30)
    with socket.socket() as thief:
        thief.bind(("127.0.0.1", int(told.read_text())))
        thief.listen()
        go.touch()
        row = _failed(stage, "port-taken")
    _check(stage, row, status=1, reason="couldn't bind", tail="couldn't bind")
    # The next try finds a port of its own.
    stage.wait_ready("port-taken")
    stage.apply()


def _killed_from_outside(stage: Stage, adopted: bool) -> None:
    stage.apply(stage.model("killed", "--fork", str(stage.root / "killed.child")))
    [row] = stage.wait_ready("killed")
    if adopted:
        [row] = _adopted(stage, [row])
    engine, child = Process(row["pid"]), _child(stage.root / "killed.child")
    os.kill(engine.pid, signal.SIGKILL)
    failed = _failed(stage, "killed")
    # Whoever is not its parent is not told what a process ended with.
    words = "ended" if adopted else "SIGKILL"
    _check(stage, failed, status=None if adopted else -9, reason=words, tail="listening")
    _gone(stage, f"the child of a killed engine{_by(adopted)}", [engine, child])
    [again] = stage.wait_ready("killed")
    stage.tally.expect(again["pid"] != engine.pid, "the killed engine is ready with its old pid")
    stage.apply()


def _stubborn(stage: Stage, number: int) -> None:
    files = [stage.root / f"forking-{number}-{one}.child" for one in ("adopted", "own")]
    adopted = _stubborn_models(stage, "adopted", files[0])
    stage.apply(*adopted)
    rows = _adopted(stage, [stage.wait_ready(model["name"])[0] for model in adopted])
    own = _stubborn_models(stage, "own", files[1])
    stage.apply(*adopted, *own)
    rows += [stage.wait_ready(model["name"])[0] for model in own]
    processes = [*(Process(row["pid"]) for row in rows), *map(_child, files)]
    began = time.monotonic()
    stage.apply()
    _gone(stage, "an engine that ignores SIGTERM, or a child that does", processes)
    stage.tally.measure("stubborn_gone_s", time.monotonic() - began)
    _no_rows(stage)


def _stubborn_models(stage: Stage, whose: str, file: Path) -> list[dict[str, Any]]:
    return [
        stage.model(f"stubborn-{whose}", "--ignore-term"),
        stage.model(f"forking-{whose}", "--fork", str(file)),
    ]


def _never_ready(stage: Stage) -> None:
    stage.apply(stage.model("never-ready", "--never-ready"))
    row = _failed(stage, "never-ready", NEVER_READY_S + 60)
    _check(stage, row, status=0, reason="not ready within", tail="listening")
    stage.apply()


# what must be seen


def _failed(stage: Stage, model: str, seconds: float = 30) -> dict[str, Any]:
    def failed() -> Any:
        return next((row for row in stage.replicas(model) if row["phase"] == "failed"), None)

    row: dict[str, Any] = wait_for(f"{model} has failed", failed, seconds)
    # What a person sees; it may have been started again by now.
    told = next(iter(stage.house.replicas(model)), {})
    return told if told.get("phase") == "failed" else row


def _check(stage: Stage, row: dict[str, Any], *, status: int | None, reason: str, tail: str) -> None:
    found = row["reason"] or "", row["exit_status"], row["tail"]
    holds = reason in found[0] and found[1] == status and any(tail in line for line in found[2])
    wanted = f"wanted {reason!r} in the reason, status {status}, {tail!r} in the tail"
    stage.tally.expect(holds, f"{row['model']}: {wanted}; found {found}")


def _gone(stage: Stage, what: str, processes: list[Process]) -> None:
    _in_time(stage, what, lambda: not any(process.lives for process in processes))
    for process in processes:
        if process.lives:
            stage.tally.left(f"{what}: pid {process.pid}")


def _no_rows(stage: Stage) -> None:
    _in_time(stage, "rows of stopped replicas", lambda: stage.api("replicas") == [])
    stage.tally.expect(stage.api("replicas") == [], "a stopped replica is still listed")


def _in_time(stage: Stage, what: str, condition: Callable[[], bool]) -> None:
    try:
        wait_for(f"{what}: gone", condition, STOP_LIMIT_S)
    except AssertionError as error:
        stage.tally.say(str(error))


def _adopted(stage: Stage, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Kill the agent and start another; returns the replicas as that one tells them."""
    stage.house.kill("n1")
    stage.start_agent("n1")
    stage.wait_nodes("n1")
    told = [stage.wait_ready(row["model"])[0] for row in rows]
    for before, after in zip(rows, told, strict=True):
        if after["pid"] != before["pid"]:
            stage.tally.lost(f"{before['model']}: pid {before['pid']} was not adopted, now {after['pid']}")
    return told


def _child(file: Path) -> Process:
    return Process(int(wait_for("the child is there", lambda: file.exists() and file.read_text(), 10)))


def _by(adopted: bool) -> str:
    return " that was adopted" if adopted else ""
