"""Engines that misbehave: each must end in the right state, with its reason and last words, and leave no process.

Those that go bad later are there twice: as children of the agent that looks after them, and under an agent that only
adopted them. An engine that never gets ready has five minutes, which nothing shortens: only the long form plays it.
"""

import contextlib
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
PORTS_TRIED = 3


def run(tally: Tally, root: Path) -> None:
    """Play every misbehaviour once a round."""
    if not tally.short:
        tally.rounds = min(tally.rounds, 3)
    with Stage(root, tally) as stage:
        stage.begin("n1", nodes=QUICK)
        for number in range(1, tally.rounds + 1):
            _going_bad_later(stage, number)
            _port_taken(stage, number)
            tally.say(f"round {number}: done")
        if not tally.short:
            _never_ready(stage)
        stage.check_nothing_left()


def _going_bad_later(stage: Stage, number: int) -> None:
    adopted = _later_models(stage, "adopted", number)
    stage.apply(*adopted)
    rows = _adopted(stage, [stage.wait_ready(model["name"])[0] for model in adopted])
    own = _later_models(stage, "own", number)
    stage.apply(*adopted, *own)
    rows += [stage.wait_ready(model["name"])[0] for model in own]
    processes = [Process(row["pid"]) for row in rows if not row["model"].startswith("killed")]
    processes += [_child(_file(stage, f"forking-{whose}", number)) for whose in ("adopted", "own")]
    # Whoever is not the parent of a process is not told what it ended with.
    _killed_from_outside(stage, "adopted", number, status=None, reason="ended")
    _killed_from_outside(stage, "own", number, status=-9, reason="SIGKILL")
    began = time.monotonic()
    # What is wanted now is only what dies by itself, so the stubborn ones are told to end meanwhile.
    _dying(stage)
    _gone(stage, "an engine that ignores SIGTERM, or a child that does", processes)
    stage.tally.measure("stubborn_gone_s", time.monotonic() - began)
    _no_rows(stage)


def _later_models(stage: Stage, whose: str, number: int) -> list[dict[str, Any]]:
    forking, killed = f"forking-{whose}", f"killed-{whose}"
    return [
        stage.model(f"stubborn-{whose}", "--ignore-term"),
        stage.model(forking, "--fork", str(_file(stage, forking, number))),
        stage.model(killed, "--fork", str(_file(stage, killed, number))),
    ]


def _file(stage: Stage, model: str, number: int) -> Path:
    return stage.root / f"{model}-{number}.child"


def _killed_from_outside(stage: Stage, whose: str, number: int, *, status: int | None, reason: str) -> None:
    model = f"killed-{whose}"
    [row] = stage.wait_ready(model)
    engine, child = Process(row["pid"]), _child(_file(stage, model, number))
    os.kill(engine.pid, signal.SIGKILL)
    _check(stage, _failed(stage, model), status=status, reason=reason, tail="listening")
    _gone(stage, f"{model}, or its child", [engine, child])
    [again] = stage.wait_ready(model)
    stage.tally.expect(again["pid"] != engine.pid, f"{model} is ready with its old pid")


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
    """Take one port away, which costs another try, and then as many in a row as the agent tries."""
    said = len(stage.house.log("n1"))
    for model, stolen in (("port-taken", 1), ("ports-taken", PORTS_TRIED)):
        go, known = stage.root / f"{model}-{number}", set[int]()
        stage.apply(stage.model(model, "--hold", str(go)))
        with contextlib.ExitStack() as thieves:
            for _ in range(stolen):
                _steal(go, known, thieves)
            if stolen == PORTS_TRIED:
                _check(stage, _failed(stage, model), status=1, reason="couldn't bind", tail="couldn't bind")
            last = _let(go, known)
            [row] = stage.wait_ready(model)
        stage.tally.expect(row["address"].endswith(f":{last}"), f"{model}: {row['address']}, not port {last}")
    log = stage.house.log("n1")[said:]
    stage.tally.expect("another port" in log, f"the agent's log does not tell of the taken port:\n{log}")
    stage.apply()


def _steal(go: Path, known: set[int], thieves: contextlib.ExitStack) -> None:
    port = _told_port(go, known)
    thief = thieves.enter_context(socket.socket())
    thief.bind(("127.0.0.1", port))
    thief.listen()
    Path(f"{go}.{port}").touch()


def _let(go: Path, known: set[int]) -> int:
    port = _told_port(go, known)
    Path(f"{go}.{port}").touch()
    return port


def _told_port(go: Path, known: set[int]) -> int:
    """Wait until an engine tells a port that is not known yet, and know it."""
    file = Path(f"{go}.port")

    def told() -> Any:
        port = int(file.read_text()) if file.exists() else 0
        return port if port not in known else 0

    port: int = wait_for("the next engine knows its port", told, 30)
    known.add(port)
    return port


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
    stage.kill_agent("n1")
    stage.start_agent("n1")
    stage.wait_nodes("n1")
    told = [stage.wait_ready(row["model"])[0] for row in rows]
    for before, after in zip(rows, told, strict=True):
        if after["pid"] != before["pid"]:
            stage.tally.lost(f"{before['model']}: pid {before['pid']} was not adopted, now {after['pid']}")
    return told


def _child(file: Path) -> Process:
    return Process(int(wait_for("the child is there", lambda: file.exists() and file.read_text(), 10)))
