"""Plan a large simulated fleet and print how long that takes.

Usage: python bench/placement [--short] [--rounds N] [--profile]

1,000 nodes and 200 models that run nowhere yet, 30 % of which fit nowhere; 600 replicas of a few models; and every
node's verdict on one model. The last line is `RESULT {"pass": ..., ...}`.
"""

import argparse
import cProfile
import json
import pstats
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from placement.measured import measure

ROUNDS = 3


def main() -> int:
    """Measure; returns 0 when the goals are reached."""
    parser = argparse.ArgumentParser(prog="bench/placement", description=__doc__.splitlines()[0])
    parser.add_argument("--short", action="store_true", help="the same, for it takes seconds anyway")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"rounds, {ROUNDS} by default")
    parser.add_argument("--profile", action="store_true", help="also print where the time goes (cProfile)")
    given = parser.parse_args()
    if given.rounds < 1:
        parser.error(f"wanted one round or more, found {given.rounds}")
    profile = cProfile.Profile() if given.profile else None
    figures = profile.runcall(measure, given.rounds) if profile else measure(given.rounds)
    if profile:
        pstats.Stats(profile).sort_stats("tottime").print_stats(30)
    print("RESULT", json.dumps(figures))
    return 0 if figures["pass"] else 1


if __name__ == "__main__":
    sys.exit(main())
