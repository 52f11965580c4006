"""2,000 lines from a real agent and back, over the admin API on loopback."""

import http.client
import json
import os
import time
from pathlib import Path

from faults.tally import Tally

from logs.scene import Scene

LINES = 2000
GOAL_MS = 30.0


def run(tally: Tally, root: Path) -> None:
    """Ask again and again for the newest 2,000 lines of an engine's output of 8 MiB."""
    with Scene(root) as scene:
        scene.write("busy.0.0", b"".join(_line(number) for number in range(80_000)))
        connection = http.client.HTTPConnection(scene.admin(), timeout=30)
        for _ in range(20):
            _asked(connection)
        took_ms = [_asked(connection) for _ in range(40 if tally.short else 300)]
        for one in took_ms:
            tally.measure("round_trip_ms", one)
    tally.say(f"{LINES} lines: p50 {sorted(took_ms)[len(took_ms) // 2]:.1f} ms, goal < {GOAL_MS:g} ms")


def _line(number: int) -> bytes:
    return b"n=%09d %s\n" % (number, os.urandom(44).hex().encode())


def _asked(connection: http.client.HTTPConnection) -> float:
    began = time.perf_counter()
    connection.request("GET", f"/api/v1/nodes/n1/logs?source=busy.0.0&lines={LINES}")
    answer = json.loads(connection.getresponse().read())
    took_ms = 1000 * (time.perf_counter() - began)
    assert len(answer["lines"]) == LINES, answer.get("error")
    return took_ms
