"""One server and one herd on loopback, each on a core of its own."""

import json
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fleet.child import Child

SERVER_CORE, HERD_CORE = 0, 1
ANYWHERE = {"client": "127.0.0.1:0", "admin": "127.0.0.1:0", "agents": "127.0.0.1:0"}


class Stage:
    """The server may be ended and started again, at the same addresses and with the same database."""

    def __init__(self, root: Path, *, profile: str | None = None) -> None:
        self._root = root
        self._profile = profile
        self._listen = dict(ANYWHERE)
        self.server: Child
        self.listens_now = 0.0
        self.start_server()

    def start_server(self) -> None:
        """Start the server, and return when it listens."""
        given = {
            "data_dir": str(self._root / "server"),
            "listen": self._listen,
            "profile": self._profile,
        }
        self.server = Child("fleet.measured", given, core=SERVER_CORE, log=self._root / "server.log")
        self.listens_now = self.server.said["now"]
        self._listen = {name: self.server.said[name] for name in ANYWHERE}

    @contextmanager
    def herd(self, *, serving: bool) -> Iterator[Child]:
        """Have a process of simulated agents, none at first."""
        given = {"address": self._listen["agents"], "serving": serving}
        herd = Child("fleet.herd", given, core=HERD_CORE, log=self._root / "herd.log")
        try:
            yield herd
        finally:
            herd.end()

    def api(self, path: str, body: Any = None) -> Any:
        """Ask the admin API, or tell it something."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"http://{self._listen['admin']}/api/v1/{path}", data, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def ready_nodes(self) -> int:
        """Count the nodes that the server takes for ready."""
        return sum(node["state"] == "ready" for node in self.api("nodes"))


def wait_registered(herd: Child, count: int, *, seconds: float) -> dict[str, Any]:
    """Wait until as many agents are registered, or the time is over; returns what they have seen."""
    ends = time.monotonic() + seconds
    while (seen := herd.ask("seen"))["registered"] < count and time.monotonic() < ends:
        time.sleep(0.05)
    found: dict[str, Any] = seen
    return found
