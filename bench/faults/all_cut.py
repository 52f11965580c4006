"""Three nodes of three fall silent at once: that is an alarm for a person, and no reason to move anything."""

import time
from pathlib import Path

from real.house import wait_for

from faults.network import Network
from faults.partition import LONG, LONG_CUT_S, SHORT_CUT_S, begin_inside
from faults.server_killed import check_engines, served
from faults.stage import QUICK, Process, Stage
from faults.tally import Tally

AGENTS = ("n1", "n2", "n3")
MODEL = "staying"


def run(tally: Tally, root: Path) -> None:
    """Cut all agents off at once, once a round."""
    if not tally.short:
        tally.rounds = min(tally.rounds, 3)
    nodes, cut_s = (QUICK, SHORT_CUT_S) if tally.short else (LONG, LONG_CUT_S)
    with Network("server", *AGENTS) as network, Stage(root, tally) as stage:
        begin_inside(stage, network, nodes)
        stage.apply(stage.model(MODEL, replicas=3))
        stage.wait_ready(MODEL, 3)
        engines = [Process(pid) for pid in stage.engines()]
        for number in range(1, tally.rounds + 1):
            _round(stage, network, number, cut_s, engines)
        stage.check_nothing_left()


def _round(stage: Stage, network: Network, number: int, cut_s: float, engines: list[Process]) -> None:
    tally, before = stage.tally, served(stage)
    tally.expect(len({row[1] for row in before}) == len(AGENTS), f"the replicas are not apart: {before}")
    began = time.monotonic()
    for name in AGENTS:
        network.cut(name)
    try:
        alarm = _alarm(stage, number, began + cut_s)
    finally:
        for name in AGENTS:
            network.heal(name)
    healed = time.monotonic()
    try:
        stage.wait_nodes(*AGENTS, seconds=45)
        wait_for("all is as before", lambda: served(stage) == before, 30)
    except AssertionError as error:
        tally.lost(f"round {number}: {error}; served {served(stage)}, before {before}")
    tally.measure("as_before_s", time.monotonic() - healed)
    check_engines(stage, number, engines)
    tally.say(f"round {number}: alarm: {alarm}")


def _alarm(stage: Stage, number: int, until: float) -> str | None:
    """Watch `ctl status` until the cut has lasted long enough; returns the alarm, and counts it when there is none."""
    alarm = None
    while time.monotonic() < until:
        told = (stage.api("status") or {}).get("alarm") or {}
        alarm = told.get("text") or alarm
        time.sleep(0.2)
    text = stage.house.ctl("status").stdout
    stage.tally.expect(
        alarm and "alarm" in text, f"round {number}: no alarm (API: {alarm!r}) in ctl status:\n{text}"
    )
    return alarm
