"""Measure what the logs of nodes cost, and follow a talking engine through every break.

Usage: python bench/logs [--short] [--follow SECONDS] [--browser] [NAMES...]

Everything runs on loopback: a server, an agent, engines and viewers as processes and threads of their own. The last
line is `RESULT {"pass": ..., ...}`; it passes when nothing was lost, doubled or wrong and every goal was reached.
"""

import argparse
import functools
import json
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1]))

from faults.tally import Tally

from logs import long_follow, round_trip, viewers

PARTS: dict[str, Callable[..., None]] = {
    "round_trip": round_trip.run,
    "viewers": viewers.run,
    "follow": long_follow.run,
}


def main() -> int:
    """Measure what was asked for; returns 0 when every goal was reached."""
    parser = argparse.ArgumentParser(prog="bench/logs", description=__doc__.splitlines()[0])
    parser.add_argument("--short", action="store_true", help="less of everything, under a minute")
    parser.add_argument(
        "--follow", type=float, metavar="SECONDS", help="how long the talking engine is followed"
    )
    parser.add_argument(
        "--browser",
        action="store_true",
        help="follow it with Debian's Chromium too, and watch what that holds",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"any of: {', '.join(PARTS)}; all of them")
    given = parser.parse_args()
    unknown = sorted(set(given.names) - PARTS.keys())
    if unknown:
        parser.error(f"no part is called {unknown[0]!r}; known: {', '.join(PARTS)}")
    # So that whatever was started is ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    tallies = [_measured(name, given) for name in given.names or PARTS]
    missed = [goal for tally in tallies for goal in missed_goals(tally)]
    passed = not missed and all(not tally.problems for tally in tallies)
    figures = {tally.fault: tally.figures() for tally in tallies}
    print("RESULT", json.dumps({"pass": passed, "missed": missed} | figures))
    return 0 if passed else 1


def _measured(name: str, given: argparse.Namespace) -> Tally:
    tally = Tally(name, rounds=1, short=given.short)
    part = PARTS[name]
    if name == "follow":
        part = functools.partial(part, seconds=given.follow, browser=given.browser)
    with tempfile.TemporaryDirectory(prefix=f"llmgw-{name}-") as folder:
        try:
            part(tally, Path(folder))
        except Exception:  # noqa: BLE001 - one part that broke must not hide what the others found
            tally.wrong(traceback.format_exc(limit=-3))
    return tally


def missed_goals(tally: Tally) -> list[str]:
    """Name the figures that are over their goals."""
    goals = {
        "round_trip_ms": round_trip.GOAL_MS,
        f"late_ms_p95_{viewers.SOURCES}_viewers": viewers.LATE_MS,
        f"late_ms_p95_{viewers.VIEWERS}_viewers": viewers.LATE_MS,
    }
    figures = tally.figures()
    return [
        f"{name}: {figures[name]['median']} of {goal:g}"
        for name, goal in goals.items()
        if name in figures and figures[name]["median"] > goal
    ]


if __name__ == "__main__":
    sys.exit(main())
