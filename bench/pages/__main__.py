"""Render the pages of a simulated fleet of 300 nodes and 100 models, and print how long that takes the server.

Usage: python bench/pages [--short] [--rounds N]

Each page as its first viewer gets it, over the whole application; then a second viewer's, and what one second of being
looked at costs while 60 nodes gave a sign of life. The last line is `RESULT {"pass": ..., ...}`.
"""

import argparse
import asyncio
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from pages.measured import measure

ROUNDS = 5


def main() -> int:
    """Measure; returns 0 when the goal is reached."""
    parser = argparse.ArgumentParser(prog="bench/pages", description=__doc__.splitlines()[0])
    parser.add_argument("--short", action="store_true", help="the same, for it takes seconds anyway")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"rounds, {ROUNDS} by default")
    given = parser.parse_args()
    if given.rounds < 1:
        parser.error(f"wanted one round or more, found {given.rounds}")
    figures = asyncio.run(measure(given.rounds))
    print("RESULT", json.dumps(figures))
    return 0 if figures["pass"] else 1


if __name__ == "__main__":
    sys.exit(main())
