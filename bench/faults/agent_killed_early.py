"""SIGKILL of the agent while it starts an engine: before it, between the engine and its record, or right behind.

The record's room is taken just before the engine is launched, so its file tells when to kill. Whatever was there then,
one engine must serve in the end, which the record names, and no other may live.
"""

import random
import threading
import time
from pathlib import Path

from real.house import wait_for

from faults.stage import QUICK, Stage
from faults.tally import Tally

AGENT = "n1"
WITHIN_S = 30.0
LATEST_S = 0.1
LEAST_ROUNDS = 4


def run(tally: Tally, root: Path) -> None:
    """Start a model once a round, and kill the agent at a moment of that."""
    tally.rounds = max(tally.rounds, LEAST_ROUNDS)
    chance = random.Random(0)
    with Stage(root, tally) as stage:
        stage.begin(AGENT, nodes=QUICK)
        for number in range(1, tally.rounds + 1):
            # Most of it happens in the first milliseconds.
            _round(stage, number, LATEST_S * chance.random() ** 3)
        stage.check_nothing_left()
        _check_forgotten(stage)


def _round(stage: Stage, number: int, delay_s: float) -> None:
    shard, known = f"early-{number}.0.0", set(stage.starts())
    killer = threading.Thread(target=lambda: _kill_at(stage, shard, delay_s))
    killer.start()
    stage.apply(stage.model(f"early-{number}", "--load", "0.2"))
    killer.join()
    found = ", ".join(path.name for path in _records(stage).glob(f"{shard}.*")) or "no file"
    there = stage.engines() & (set(stage.starts()) - known)
    stage.start_agent(AGENT)
    [row] = stage.wait_ready(f"early-{number}")
    _check_one(stage, number, row["pid"], f"{shard}.json")
    became = "adopted" if row["pid"] in there else "replaced" if there else "started"
    stage.tally.say(
        f"round {number}: killed {1000 * delay_s:.0f} ms after the room was taken, {found}; {became}"
    )


def _records(stage: Stage) -> Path:
    return stage.root / AGENT / "records"


def _kill_at(stage: Stage, shard: str, delay_s: float) -> None:
    """Kill the agent so long after it has taken room for the record of a shard."""
    ends = time.monotonic() + WITHIN_S
    # Without a pause: what is waited for is over within milliseconds.
    while not any(_records(stage).glob(f"{shard}.*")) and time.monotonic() < ends:
        pass
    time.sleep(delay_s)
    stage.house.kill(AGENT)


def _check_one(stage: Stage, number: int, pid: int, record: str) -> None:
    """Wait until what the round before left has ended, and count what lives or is recorded beside this one."""

    def one() -> bool:
        return stage.engines() == {pid} and [path.name for path in _records(stage).iterdir()] == [record]

    try:
        wait_for("one engine lives and is recorded", one, 15)
    except AssertionError:
        recorded = sorted(path.name for path in _records(stage).iterdir())
        stage.tally.doubled(
            f"round {number}: engines {sorted(stage.engines())}, records {recorded}, told {pid}"
        )


def _check_forgotten(stage: Stage) -> None:
    try:
        wait_for("no record is left", lambda: not any(_records(stage).iterdir()), 15)
    except AssertionError:
        stage.tally.wrong(f"left behind: {sorted(path.name for path in _records(stage).iterdir())}")
