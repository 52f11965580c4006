"""Play faults to a running llmgw and print what each of them cost.

Usage: python bench/faults [--rounds N] [--short] [--engine-program "COMMAND ..."] [NAMES...]

Every fault has a house of its own: a server, agents, engines as processes on loopback (or in network namespaces). The
last line is `RESULT {"pass": ..., ...}`; it passes when every count of every fault asked for is 0.
"""

import argparse
import json
import shlex
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1]))

from faults.plays import ANY_ENGINE, FAULTS, play_all

ROUNDS = 20


def main() -> int:
    """Play the faults that were asked for; returns 0 when all of them cost nothing."""
    parser = argparse.ArgumentParser(prog="bench/faults", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, help=f"rounds of each fault; {ROUNDS}, or 1 with --short")
    parser.add_argument("--short", action="store_true", help="shorter waiting times, fewer rounds")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"any of: {', '.join(FAULTS)}; all of them")
    parser.add_argument(
        "--engine-program",
        metavar="COMMAND",
        type=shlex.split,
        help="an engine in the place of the bench's own: a program that takes llama-server's flags, with arguments in "
        f"front of them if it has any ({', '.join(ANY_ENGINE)} only)",
    )
    given = parser.parse_args()
    unknown = sorted(set(given.names) - FAULTS.keys())
    if unknown:
        parser.error(f"no fault is called {unknown[0]!r}; known: {', '.join(FAULTS)}")
    if given.engine_program and (own := sorted(set(given.names or FAULTS) - ANY_ENGINE)):
        parser.error(
            f"{own[0]} needs the bench's own engine; --engine-program is for {', '.join(ANY_ENGINE)}"
        )
    rounds = given.rounds or (1 if given.short else ROUNDS)
    # So that whatever was started and mounted is ended and taken away.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    tallies = play_all(given.names or FAULTS, rounds=rounds, short=given.short, program=given.engine_program)
    passed = all(not tally.problems for tally in tallies)
    print("RESULT", json.dumps({"pass": passed} | {tally.fault: tally.figures() for tally in tallies}))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
