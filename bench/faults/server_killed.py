"""SIGKILL of the server under load: it comes back to the very same engines, and no request ends in half a truth.

Fewest engines that show it: two nodes with two replicas each. What was running through the killed process must fail so
that its client sees it: a connection that breaks or an error, never a success that is short or changed.
"""

import time
from pathlib import Path
from typing import Any

from real.house import wait_for

from faults.stage import QUICK, Process, Stage
from faults.tally import Tally
from faults.traffic import CHUNKS, Traffic

MODELS = ("left", "right")
CLIENTS = 6
ARGS = ("--chunks", str(CHUNKS), "--interval", "20", "--delay", "50")
WITHIN_S, BACK_WITHIN_S = 10.0, 20.0


def run(tally: Tally, root: Path) -> None:
    """Kill the server once a round, while several clients ask."""
    with Stage(root, tally) as stage:
        before = furnish(stage)
        engines = [Process(pid) for pid in stage.engines()]
        tally.expect(len(engines) == 4, f"wanted 4 engines, found {len(engines)}")
        for number in range(1, tally.rounds + 1):
            _round(stage, number, before, engines)
        stage.check_nothing_left()


def furnish(stage: Stage, *args: str, **settings: Any) -> list[tuple[Any, ...]]:
    """Put two nodes with two replicas each on the stage; returns who answers where."""
    stage.begin("n1", "n2", **({"nodes": QUICK} | settings))
    stage.apply(*(stage.model(name, *(args or ARGS), replicas=2) for name in MODELS))
    for name in MODELS:
        stage.wait_ready(name, 2)
    return served(stage)


def served(stage: Stage) -> list[tuple[Any, ...]]:
    """List who answers where, as the server knows it."""
    rows = [row for row in stage.replicas() if row["phase"] == "ready"]
    return sorted((row["shard"], row["node"], row["pid"], row["address"], row["generation"]) for row in rows)


def _round(stage: Stage, number: int, before: list[tuple[Any, ...]], engines: list[Process]) -> None:
    tally = stage.tally
    traffic = Traffic(stage.house.listening["client"], stage.key, MODELS[number % 2])
    with traffic.of_clients(CLIENTS):
        wait_for("requests are in flight", lambda: traffic.in_flight >= CLIENTS and traffic.answers, 30)
        stage.house.kill("server")
        stage.house.start_server(nodes=QUICK)
        returned = time.monotonic()
        check_rebuilt(stage, number, before, returned)
        rebuilt = time.monotonic()
        _check_works_again(stage, number, traffic, rebuilt)
    for answer in traffic.wrong():
        tally.lost(f"round {number}: an answer looks whole and is not: {answer}")
    late = [a for a in traffic.failed() if a.began > rebuilt]
    for answer in late:
        tally.lost(f"round {number}: failed though all replicas were back: {answer}")
    check_engines(stage, number, engines)
    cut = len(traffic.failed()) - len(late)
    tally.say(f"round {number}: back in {rebuilt - returned:.1f} s, {cut} requests failed cleanly")


def check_rebuilt(stage: Stage, number: int, before: list[tuple[Any, ...]], returned: float) -> None:
    """Wait until all replicas are as they were.

    Args:
        returned: when the server listened again (monotonic). Agents dial again when their backoff says so; the time
            that counts begins when the last of them is back.
    """
    stage.wait_nodes("n1", "n2", seconds=BACK_WITHIN_S)
    back = time.monotonic()
    stage.tally.measure("agents_back_s", back - returned)
    try:
        wait_for("the replicas are as before", lambda: served(stage) == before, WITHIN_S)
    except AssertionError:
        stage.tally.lost(
            f"round {number}: not rebuilt within {WITHIN_S:g} s: {served(stage)}, before {before}"
        )
    stage.tally.measure("rebuilt_s", time.monotonic() - back)


def check_engines(stage: Stage, number: int, engines: list[Process]) -> None:
    """Compare the engines that live with those that lived at the beginning."""
    for engine in engines:
        if not engine.lives:
            stage.tally.lost(f"round {number}: engine {engine.pid} is gone")
    extra = set(stage.starts()) - {engine.pid for engine in engines}
    if extra:
        stage.tally.doubled(f"round {number}: engines {sorted(extra)} were started besides")


def _check_works_again(stage: Stage, number: int, traffic: Traffic, since: float) -> None:
    def answered() -> bool:
        return sum(a.is_whole and a.began > since for a in traffic.answers) >= CLIENTS

    try:
        wait_for("new requests are answered", answered, 20)
    except AssertionError as error:
        stage.tally.lost(f"round {number}: {error}; last: {traffic.answers[-1]}")
