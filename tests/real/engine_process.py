"""A real engine, started as an agent would start it, on a port of its own."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

from llmgw.core.fleet.catalog import Profile
from llmgw.core.fleet.hardware import EngineInstall
from llmgw.engines.engine import Engine, Readiness
from llmgw.engines.gguf import HEAD_BYTES
from llmgw.runtime.subprocess import clean_environment


def free_port() -> int:
    """Ask the kernel for a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class EngineProcess:
    """One engine of a test: a context manager that leaves no process behind."""

    def __init__(
        self,
        engine: Engine,
        install: EngineInstall,
        profile: Profile,
        weights: Path,
        log: Path,
        *,
        before: tuple[str, ...] = (),
    ) -> None:
        self._engine = engine
        self._before = before
        self.port = free_port()
        self._log = log
        head = b""
        with contextlib.suppress(FileNotFoundError), weights.open("rb") as file:
            head = file.read(HEAD_BYTES)
        self.launch = engine.launch(
            *(install, profile),
            model="gemma",
            weights=str(weights),
            host="127.0.0.1",
            port=self.port,
            head=head,
        )

    def __enter__(self) -> "EngineProcess":
        env = clean_environment(os.environ, scrub=self.launch.scrub, add=self.launch.env)
        with self._log.open("wb") as output:
            self.process = subprocess.Popen(
                (*self._before, *self.launch.argv),
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def lines(self) -> tuple[str, ...]:
        """Return what it has said so far."""
        return tuple(self._log.read_text(errors="replace").splitlines())

    def request(
        self, method: str, path: str, body: object = None, timeout_s: float = 60
    ) -> tuple[int, bytes]:
        """Send one request; returns its status and body."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)
        try:
            connection.request(method, path, body=None if body is None else json.dumps(body))
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def json(self, method: str, path: str, body: object = None) -> Any:
        """Send one request that must succeed; returns its answer."""
        status, answer = self.request(method, path, body)
        assert status == 200, answer
        return json.loads(answer)

    def readiness(self) -> Readiness:
        """Ask it once, as an agent does."""
        try:
            status, body = self.request("GET", self.launch.health_path, timeout_s=5)
        except (OSError, HTTPException):
            return self._engine.readiness(None, b"")
        return self._engine.readiness(status, body)

    def readiness_until_ready(self, timeout_s: float = 60) -> list[Readiness]:
        """Ask until it is ready; returns what was heard, without repeats."""
        heard: list[Readiness] = []
        for _ in polls(timeout_s):
            assert self.process.poll() is None, "\n".join(self.lines()[-20:])
            now = self.readiness()
            if now not in heard[-1:]:
                heard.append(now)
            if now is Readiness.READY:
                return heard
        raise AssertionError(f"not ready after {timeout_s} s: {heard}")

    def busy_slots(self) -> int:
        """Count the slots that generate at this moment."""
        return sum(slot["is_processing"] for slot in self.json("GET", "/slots"))

    def terminate(self) -> int:
        """Send SIGTERM and return the exit status; fails when the grace runs out."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=self.launch.stop_grace_s)


def polls(timeout_s: float, interval_s: float = 0.02) -> Iterator[None]:
    """Yield now and then until the time is over."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        yield
        time.sleep(interval_s)
