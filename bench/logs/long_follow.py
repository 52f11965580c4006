"""A talking engine is followed while its agent is killed and its server is killed and restarted, again and again.

Every line counts itself: none is lost or doubled unless a marker says how much was overwritten. Meanwhile heartbeats
come in time, and neither process grows.
"""

import json
import signal
import sys
import threading
import time
import urllib.request
from pathlib import Path

from faults.stage import Stage
from faults.tally import Tally
from real.house import wait_for

from logs.browser_viewer import LINES, BrowserViewer
from logs.viewer import Viewer

ENGINE = Path(__file__).with_name("chatty_engine.py")
HEARTBEAT_S = 0.5
LATE_S = 2.0
MOST_GROWTH_MIB = 24
VIEWERS = 3
MOST_BROWSER_GROWTH_MIB = 64
"""Of the page's process; what its scripts hold must stay as it is."""
MOST_HEAP_GROWTH_MIB = 4


def run(tally: Tally, root: Path, seconds: float | None = None, *, browser: bool = False) -> None:
    """Follow for so many seconds; a fifth of them before the first break.

    Args:
        browser: look with a browser as well.
    """
    seconds = seconds or (25.0 if tally.short else 120.0)
    odd_every = max(3.0, min(60.0, seconds / 10))
    with Stage(root, tally) as stage:
        stage.program = (sys.executable, "-I", str(ENGINE))
        stage.begin("n1", nodes={"heartbeat": "500ms", "unreachable_after": "10s", "lost_after": "60s"})
        stage.apply(stage.model("talk", "--odd-every", str(odd_every)))
        [row] = stage.wait_ready("talk")
        shard = row["shard"] if "shard" in row else f"{row['id']}.0"

        def address() -> str:
            return str(stage.house.listening["admin"])

        viewers = [Viewer(address, "n1", shard) for _ in range(VIEWERS)]
        watching = BrowserViewer(address, "n1", shard) if browser else None
        beats = Beats(stage)
        try:
            _play(stage, tally, beats, seconds)
        finally:
            beats.stop()
        if watching is not None:
            _account_browser(stage, tally, watching, shard)
        _account(stage, tally, viewers, shard)
        for late in beats.late_s:
            tally.measure("heartbeat_age_s", late)
        tally.expect(
            max(beats.late_s, default=0.0) < LATE_S,
            f"a heartbeat was {max(beats.late_s, default=0):.1f} s old",
        )


def _play(stage: Stage, tally: Tally, beats: "Beats", seconds: float) -> None:
    ends = time.monotonic() + seconds
    breaks = [_agent_killed, _server_restarted, _server_killed]
    pause = seconds / (2 * len(breaks) + 1)
    rounds = max(1, int(seconds // 120))
    pause = seconds / (rounds * len(breaks) + 1)
    for one in breaks * rounds:
        before = _memory(stage)
        _wait_until(min(ends, time.monotonic() + pause * 0.3))
        early = _memory(stage)
        _wait_until(min(ends, time.monotonic() + pause * 0.7))
        for name, mib in _memory(stage).items():
            grown = mib - early.get(name, before.get(name, mib))
            tally.measure(f"{name}_mib", mib)
            tally.measure(f"{name}_grown_mib", grown)
            tally.expect(
                grown < MOST_GROWTH_MIB, f"the {name} grew by {grown:.0f} MiB in {pause * 0.7:.0f} s"
            )
        with beats.paused():
            one(stage)
            tally.say(f"{one.__name__.strip('_').replace('_', ' ')}")
    _wait_until(ends)


def _agent_killed(stage: Stage) -> None:
    stage.house.kill("n1")
    time.sleep(1.0)
    stage.start_agent("n1")
    stage.wait_nodes("n1")


def _server_restarted(stage: Stage) -> None:
    stage.house.kill("server", signal.SIGTERM)
    stage.house.start_server(nodes={"heartbeat": "500ms", "unreachable_after": "10s", "lost_after": "60s"})
    stage.wait_nodes("n1")


def _server_killed(stage: Stage) -> None:
    stage.house.kill("server", signal.SIGKILL)
    time.sleep(1.0)
    stage.house.start_server(nodes={"heartbeat": "500ms", "unreachable_after": "10s", "lost_after": "60s"})
    stage.wait_nodes("n1")


def _account(stage: Stage, tally: Tally, viewers: list[Viewer], shard: str) -> None:
    newest = _newest(stage, shard)
    try:
        wait_for(
            "every viewer has come to the newest line",
            lambda: all((viewer.newest or 0) >= newest for viewer in viewers),
            60,
        )
    except AssertionError as error:
        tally.lost(str(error))
    for viewer in viewers:
        viewer.leave()
        for number in viewer.doubled:
            tally.doubled(f"line {number}")
        for count in viewer.missing:
            tally.lost(f"{count} lines, and no marker said so")
        for words in viewer.words:
            tally.wrong(f"not cleaned: {words!r}")
        tally.measure("lines_seen", viewer.lines)
        tally.measure("markers", len(viewer.markers))
        tally.measure("connections", viewer.connections)
        tally.expect(viewer.lines > 1000, f"a viewer saw {viewer.lines} lines only")
    tally.say(f"{len(viewers)} viewers, {viewers[0].lines} lines each, markers: {viewers[0].markers}")


def _account_browser(stage: Stage, tally: Tally, viewer: BrowserViewer, shard: str) -> None:
    newest = _newest(stage, shard)
    try:
        wait_for("the browser shows the newest line", lambda: (viewer.newest or 0) >= newest, 60)
    except AssertionError as error:
        tally.lost(str(error))
    viewer.leave()
    tally.expect(viewer.problem is None, f"the browser: {viewer.problem}")
    for complaint in viewer.complaints:
        tally.wrong(f"the browser complains: {complaint}")
    tally.expect(viewer.titles == {"Logs of n1 · llmgw"}, f"the page was called {viewer.titles}")
    for number in viewer.seen.get("doubled", []):
        tally.doubled(f"line {number} in the browser")
    for count in viewer.seen.get("missing", []):
        tally.lost(f"{count} lines in the browser, and no marker said so")
    tally.measure("browser_lines", viewer.seen.get("lines", 0))
    tally.measure("browser_lines_held", viewer.seen.get("most", 0))
    tally.expect(0 < viewer.seen.get("most", 0) <= LINES, f"the page held {viewer.seen.get('most')} lines")
    for name, most, samples in (
        ("browser_heap_mib", MOST_HEAP_GROWTH_MIB, viewer.heap_mib),
        ("browser_process_mib", MOST_BROWSER_GROWTH_MIB, viewer.process_mib),
        ("browser_elements", LINES, viewer.elements),
    ):
        for one in samples:
            tally.measure(name, one)
        _expect_flat(tally, name, most, samples)
    tally.say(
        f"the browser: {viewer.seen.get('lines')} lines, markers: {viewer.seen.get('markers')}, "
        f"heap {viewer.heap_mib[:1]} to {viewer.heap_mib[-1:]} MiB"
    )


def _expect_flat(tally: Tally, name: str, most: float, samples: list[float] | list[int]) -> None:
    """Compare the last third of the samples with the second: the first is the page's beginning."""
    third = len(samples) // 3
    if not third:
        tally.wrong(f"{name}: too few samples ({len(samples)})")
        return
    middle, last = sorted(samples[third : 2 * third])[third // 2], sorted(samples[-third:])[third // 2]
    tally.expect(last - middle < most, f"{name} grew from {middle:.1f} to {last:.1f}")


def _newest(stage: Stage, shard: str) -> int:
    """Read the number of a line that has been written by now from the file itself."""
    with stage.log_of("n1", shard).open("rb") as file:
        file.seek(-4096, 2)
        numbers = [line for line in file.read().split(b"\n")[1:-1] if line.startswith(b"n=")]
    return int(numbers[-1][2:11])


class Beats:
    """Looks how old the latest heartbeat is, several times a second."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._stop = threading.Event()
        self._free = threading.Lock()
        self.late_s: list[float] = []
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def paused(self) -> threading.Lock:
        """Do not look while the block lasts: whoever is killed sends none."""
        return self._free

    def stop(self) -> None:
        """Look no more."""
        self._stop.set()
        self._thread.join(20)

    def _look(self) -> None:
        while not self._stop.wait(0.25):
            with self._free:
                node = _asked(self._stage)
                if node is not None and node["state"] == "ready":
                    self.late_s.append(node["last_seen_s"])


def _asked(stage: Stage) -> dict[str, object] | None:
    try:
        url = f"http://{stage.house.listening['admin']}/api/v1/nodes/n1"
        with urllib.request.urlopen(url, timeout=5) as answer:
            found: dict[str, object] = json.load(answer)
            return found
    except (OSError, ValueError):
        return None


def _memory(stage: Stage) -> dict[str, float]:
    """Read how much memory server and agent hold, MiB."""
    found = {}
    for name in ("server", "n1"):
        process = stage.house.processes.get(name)
        if process is None:
            continue
        for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                found["agent" if name == "n1" else name] = int(line.split()[1]) / 1024
    return found


def _wait_until(when: float) -> None:
    time.sleep(max(0.0, when - time.monotonic()))
