"""SIGSTOP of the server for longer than its nodes may be silent: a silence of its own, that it must not act on."""

import signal
import time
from pathlib import Path

from real.house import wait_for

from faults.server_killed import check_engines, furnish, served
from faults.stage import QUICK, Process, Stage
from faults.tally import Tally

LONG = {"heartbeat": "5s", "unreachable_after": "15s", "lost_after": "60s", "start_grace": "20s"}


def run(tally: Tally, root: Path) -> None:
    """Stop and continue the server once a round (once in all when it is for two minutes)."""
    if not tally.short:
        tally.rounds = min(tally.rounds, 2)
    nodes, stopped_s = (QUICK, 20.0) if tally.short else (LONG, 120.0)
    with Stage(root, tally) as stage:
        before = furnish(stage, nodes=nodes)
        engines = [Process(pid) for pid in stage.engines()]
        for number in range(1, tally.rounds + 1):
            said = len(stage.house.log("server"))
            stand_still(stage, stopped_s)
            _watch(stage, number, before, said, 8.0 if tally.short else 75.0)
            check_engines(stage, number, engines)
            tally.say(f"round {number}: stood still for {stopped_s:g} s")
        stage.check_nothing_left()


def stand_still(stage: Stage, seconds: float) -> None:
    """Keep the server from running for some time. Its being stopped is the fault, so this does sleep."""
    process = stage.house.processes["server"]
    process.send_signal(signal.SIGSTOP)
    try:
        time.sleep(seconds)
    finally:
        process.send_signal(signal.SIGCONT)


def _watch(stage: Stage, number: int, before: list[tuple[object, ...]], said: int, seconds: float) -> None:
    """Look for `seconds` whether anybody is declared lost; `said` is how much the log held before."""
    tally, ends = stage.tally, time.monotonic() + seconds
    lost: set[str] = set()
    while time.monotonic() < ends:
        lost |= {node["id"] for node in stage.api("nodes") or [] if node["state"] == "lost"}
        time.sleep(0.1)
    lost |= {name for name in ("n1", "n2") if f"node {name} is lost" in stage.house.log("server")[said:]}
    for name in sorted(lost):
        tally.lost(f"round {number}: node {name} was declared lost")
    try:
        wait_for("all is as before", lambda: served(stage) == before, 20)
    except AssertionError:
        tally.lost(f"round {number}: served {served(stage)}, before {before}")
