"""Put simulated agents on a server that has one core, and print how many it bears and how fast they come back.

Usage: python bench/fleet [--short] [--profile FILE] [NAMES...]

Agents are simulated in a process on another core; what they say on their real connections is what real agents say. The
last line is `RESULT {"pass": ..., ...}`.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from fleet import ceiling, returning

MEASURES = {"ceiling": ceiling.run, "returning": returning.run}


def main() -> int:
    """Measure what was asked for; returns 0 when every goal is reached."""
    parser = argparse.ArgumentParser(prog="bench/fleet", description=__doc__.splitlines()[0])
    parser.add_argument("--short", action="store_true", help="only as many agents as the goal asks for, once")
    parser.add_argument("--profile", metavar="FILE", help="write a profile of the server (cProfile) to FILE")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"any of: {', '.join(MEASURES)}; both of them"
    )
    given = parser.parse_args()
    unknown = sorted(set(given.names) - MEASURES.keys())
    if unknown:
        parser.error(f"nothing is called {unknown[0]!r}; known: {', '.join(MEASURES)}")
    figures = {}
    for name in given.names or MEASURES:
        with tempfile.TemporaryDirectory(prefix="llmgw-fleet-") as folder:
            figures[name] = MEASURES[name](Path(folder), short=given.short, profile=given.profile)
    passed = all(of_one["pass"] for of_one in figures.values())
    print("RESULT", json.dumps({"pass": passed} | figures))
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
