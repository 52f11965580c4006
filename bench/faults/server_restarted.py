"""A graceful restart of the server under load, its client port held open by somebody else: no request may fail.

Every request is shorter than the time that a stopping server gives to requests in flight. Each has a connection of its
own: on one that is kept open, a request may cross with its closing, which clients must be ready for anyway.
"""

import signal
import time
from pathlib import Path
from typing import Any

from real.house import wait_for

from faults.activation import activated
from faults.server_killed import MODELS, check_engines, check_rebuilt, furnish
from faults.stage import QUICK, Process, Stage
from faults.tally import Tally
from faults.traffic import CHUNKS, Traffic

PER_S = 50.0
ARGS = ("--chunks", str(CHUNKS), "--interval", "10", "--delay", "100")
MORE = 50


def run(tally: Tally, root: Path, program: tuple[str, ...] | None = None) -> None:
    """Restart the server once a round, while requests begin at a steady rate.

    Args:
        program: another engine, as a command line that takes llama-server's flags behind it; None for the bench's own.
    """
    with Stage(root, tally) as stage, activated(stage) as address:
        stage.program = program
        settings = {"nodes": QUICK, "listen": {"client": address}}
        before = furnish(stage, *ARGS, **settings)
        engines = [Process(pid) for pid in stage.engines()]
        for number in range(1, tally.rounds + 1):
            _round(stage, number, address, settings, before, engines)
        stage.check_nothing_left()


def _round(
    stage: Stage,
    number: int,
    address: str,
    settings: dict[str, Any],
    before: list[tuple[Any, ...]],
    engines: list[Process],
) -> None:
    tally = stage.tally
    traffic = Traffic(address, stage.key, MODELS[number % 2], exact=stage.program is None)
    with traffic.at_rate(PER_S):
        wait_for("requests are answered", lambda: len(traffic.answers) >= MORE, 30)
        began = time.monotonic()
        status = stage.house.kill("server", signal.SIGTERM)
        tally.measure("stop_s", time.monotonic() - began)
        tally.expect(status == 0, f"round {number}: the server ended with status {status}")
        stage.house.start_server(**settings)
        check_rebuilt(stage, number, before, time.monotonic())
        count = len(traffic.answers)
        wait_for("requests are answered again", lambda: len(traffic.answers) >= count + MORE, 30)
    for answer in [*traffic.failed(), *traffic.wrong()]:
        tally.lost(f"round {number}: begun {answer.began - began:+.2f} s from the stop: {answer}")
    check_engines(stage, number, engines)
    longest = max(a.ended - a.began for a in traffic.answers)
    tally.measure("longest_request_s", longest)
    tally.say(f"round {number}: {len(traffic.answers)} requests, the longest took {longest:.1f} s")
