"""A viewer as a browser is one: reads events, connects again with the last id, and accounts for every line."""

import contextlib
import http.client
import json
import re
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

_NUMBER = re.compile(r"n=(\d{9})")
_LOST = re.compile(r"(\d+) bytes\) were overwritten|(\d+) lines")


class Viewer:
    """Follows one source in a thread of its own until it is told to leave.

    Attributes:
        lines: how many it saw.
        late_s: of each line that carries its time (`t=SECONDS`), how long it took.
        doubled: numbers that came a second time.
        missing: numbers that were passed over, without a marker that says so.
        markers: what it was told is missing.
    """

    def __init__(self, address: Callable[[], str], node: str, source: str, lines: int = 10) -> None:
        self._address = address
        self._path = f"/api/v1/nodes/{node}/logs/follow?source={source}&lines={lines}"
        self._cursor: str | None = None
        self._leaving = threading.Event()
        self._marked = False
        self._socket: socket.socket | None = None
        self.newest: int | None = None
        self.first: int | None = None
        self.lines = 0
        self.connections = 0
        self.late_s: list[float] = []
        self.doubled: list[int] = []
        self.missing: list[int] = []
        self.markers: list[str] = []
        self.words: list[str] = []
        self._thread = threading.Thread(target=self._view, daemon=True)
        self._thread.start()

    def leave(self) -> None:
        """Stop looking, and hang up."""
        self._leaving.set()
        held = self._socket
        if held is not None:
            with contextlib.suppress(OSError):
                held.shutdown(socket.SHUT_RDWR)
        self._thread.join(20)

    def _view(self) -> None:
        while not self._leaving.is_set():
            try:
                self._follow()
            except (OSError, http.client.HTTPException):
                time.sleep(0.2)

    def _follow(self) -> None:
        connection = http.client.HTTPConnection(self._address(), timeout=5)
        headers = {"accept": "text/event-stream"}
        if self._cursor is not None:
            headers["last-event-id"] = self._cursor
        try:
            connection.connect()
            self._socket = connection.sock
            connection.request("GET", self._path, headers=headers)
            answer = connection.getresponse()
            if answer.status != 200:
                time.sleep(0.2)
                return
            self.connections += 1
            while not self._leaving.is_set():
                try:
                    line = answer.readline()
                except TimeoutError:
                    # A stream without news for a moment is none that ended; half a line is never left behind by it.
                    return
                if not line:
                    # A browser waits for a moment, too, before it asks again.
                    time.sleep(0.2)
                    return
                self._read(line.rstrip(b"\n"))
        finally:
            connection.close()

    def _read(self, line: bytes) -> None:
        if line.startswith(b"data: "):
            self._take(json.loads(line[6:]))

    def _take(self, event: dict[str, Any]) -> None:
        now = time.time()
        if event["marker"]:
            self.markers.append(event["marker"])
            self._marked = True
        for line in event["lines"]:
            self._count(line, now)
        # The id of an event holds for what it brought.
        self._cursor = event["cursor"] or self._cursor

    def _count(self, line: str, now: float) -> None:
        self.lines += 1
        if " t=" in line:
            self.late_s.append(now - float(line.rpartition(" t=")[2]))
        match = _NUMBER.search(line)
        if match is None:
            return
        number = int(match[1])
        if not line.startswith("n=") or "abcdefgh1234" in line:
            self.words.append(line[:100])
        if self.newest is None:
            self.first = number
        elif number <= self.newest:
            self.doubled.append(number)
        elif number > self.newest + 1 and not self._marked:
            self.missing.append(number - self.newest - 1)
        self.newest = number
        self._marked = False


def announced_bytes(marker: str) -> int:
    """Read how many bytes a marker says are missing."""
    match = re.search(r"\((\d+) bytes\)|^(\d+) B ", marker)
    return int(match[1] or match[2]) if match else 0
