"""Many viewers of a few sources: what the agent sends does not depend on how many look, and lines come at once."""

import contextlib
import os
import socket
import threading
import time
from pathlib import Path

from faults.tally import Tally
from real.house import wait_for

from logs.scene import Scene
from logs.viewer import Viewer

SOURCES = 10
VIEWERS = 50
LATE_MS = 500.0
PAYLOAD_BYTES = 64


def run(tally: Tally, root: Path) -> None:
    """Count what goes over the agent's link with one viewer a source, and with 50 in all."""
    with Scene(root) as scene:
        relay = Relay(scene.house.listening["agents"])
        scene.house.kill("n1")
        scene.house.start_agent("n1", server=[relay.address])
        wait_for(
            "the agent is there, over the relay",
            lambda: relay.sent and scene.house.node("n1")["state"] == "ready",
        )
        lines = 200 if tally.short else 1000
        few = _bytes_sent(scene, relay, tally, SOURCES, lines)
        many = _bytes_sent(scene, relay, tally, VIEWERS, lines)
        tally.measure("sent_ratio_50_to_10_viewers", many / few)
        tally.expect(
            many < 1.3 * few, f"{VIEWERS} viewers cost the agent {many} bytes, {SOURCES} cost it {few}"
        )
        relay.close()


def _bytes_sent(scene: Scene, relay: "Relay", tally: Tally, count: int, lines: int) -> int:
    for number in range(SOURCES):
        scene.write(f"s{number}.0.0", b"begin\n")
    viewers = [Viewer(scene.address, "n1", f"s{n % SOURCES}.0.0", lines=1) for n in range(count)]
    wait_for("every viewer sees something", lambda: all(viewer.lines for viewer in viewers), 30)
    before, seen_before = relay.sent, [viewer.lines for viewer in viewers]
    for turn in range(lines // 10):
        for number in range(SOURCES):
            scene.write(f"s{number}.0.0", b"".join(_line(turn * 10 + n) for n in range(10)))
        time.sleep(0.02)

    def all_seen() -> bool:
        return all(v.lines - b == lines for v, b in zip(viewers, seen_before, strict=True))

    try:
        wait_for("every viewer sees every line", all_seen, 30)
    except AssertionError as error:
        tally.lost(str(error))
    sent = relay.sent - before
    late_ms = [1000 * late for viewer in viewers for late in viewer.late_s]
    for viewer in viewers:
        viewer.leave()
    late_ms.sort()
    tally.measure(f"late_ms_p50_{count}_viewers", late_ms[len(late_ms) // 2])
    p95 = late_ms[int(0.95 * len(late_ms))]
    tally.measure(f"late_ms_p95_{count}_viewers", p95)
    tally.say(
        f"{count} viewers: the agent sent {sent} bytes for {SOURCES * lines} lines; p95 {p95:.0f} ms late"
    )
    return sent


def _line(number: int) -> bytes:
    # Nothing that could be compressed, so that bytes on the link tell how often a line was sent.
    return b"%d %s t=%.6f\n" % (number, os.urandom(PAYLOAD_BYTES).hex().encode(), time.time())


class Relay:
    """Stands between an agent and its server and counts what the agent sends."""

    def __init__(self, to: str) -> None:
        host, _, port = to.rpartition(":")
        self._to = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.sent = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Take no more connections; those there are end with their ends."""
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                agent, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(self._to)
            threading.Thread(target=self._pass_on, args=(agent, server, True), daemon=True).start()
            threading.Thread(target=self._pass_on, args=(server, agent, False), daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket, counted: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if counted:
                    self.sent += len(data)
                sink.sendall(data)
        for one in (source, sink):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
