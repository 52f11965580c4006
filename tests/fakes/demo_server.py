"""A server with the demo fleet in a thread of its own, for tests that look at it with a browser."""

import asyncio
import json
import threading
import time
import urllib.request
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from fakes.demo_agent import DemoAgent
from fakes.demo_fleet import CATALOG, demo_nodes
from fakes.running_server import RunningServer
from msgspec.structs import replace

from llmgw.config.server import Listen, Nodes
from llmgw.core.fleet.snapshot import Introduction

SOON = Nodes(heartbeat=1.0, unreachable_after=30.0, lost_after=60.0, start_grace=1.5)


class DemoServer:
    """Runs for as long as the block lasts; its agents come back by themselves when it is started anew."""

    def __init__(self, folder: Path, *more: Introduction) -> None:
        """Take where its data lies.

        Args:
            more: nodes beside those of the demo fleet.
        """
        self.folder = folder
        self.agents: dict[str, DemoAgent] = {}
        self._more = more
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._server: RunningServer | None = None
        self._playing: list[asyncio.Task[None]] = []
        self._listen = Listen(client="127.0.0.1:0", admin="127.0.0.1:0", agents="127.0.0.1:0")

    def __enter__(self) -> Self:
        self._thread.start()
        self.start()
        for said in (*demo_nodes(), *self._more):
            self.agents[said.node] = DemoAgent(0, said, time.time)
        self._run(self._play())
        self.until("nodes", lambda nodes: len(nodes) == len(self.agents))
        self.post("apply", {"catalog": CATALOG})
        phases = {"ready": 5, "failed": 1, "fetching": 1}
        self.until(
            "replicas",
            lambda rows: all(sum(r["phase"] == p for r in rows) >= n for p, n in phases.items()),
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._leave())
        self.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def admin(self) -> str:
        """The address of the admin listener."""
        return f"http://{self._listen.admin}"

    @property
    def client(self) -> str:
        """Host and port of the client listener."""
        return self._listen.client

    def start(self) -> None:
        """Start the server, on the ports that it had before."""
        self._server = RunningServer(self.folder, listen=self._listen, nodes=SOON)
        self._run(self._server.__aenter__())
        heard = self._server.listening
        self._listen = replace(self._listen, client=heard.client, admin=heard.admin, agents=heard.agents)

    def stop(self) -> float:
        """Stop the server; gives the seconds that this took."""
        began = time.monotonic()
        if self._server is not None:
            self._run(self._server.__aexit__())
        self._server = None
        return time.monotonic() - began

    def write(self, node: str, source: str, *lines: str) -> None:
        """Let a source of a node say more."""
        self._loop.call_soon_threadsafe(self.agents[node].write, source, *lines)

    def read(self, path: str) -> Any:
        """Ask the admin API for something."""
        with urllib.request.urlopen(f"{self.admin}/api/v1/{path}", timeout=30) as answer:
            return json.load(answer)

    def post(self, path: str, body: Any) -> None:
        """Post something to the admin API."""
        request = urllib.request.Request(
            f"{self.admin}/api/v1/{path}",
            data=json.dumps(body).encode(),
            headers={"content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            assert answer.status in (200, 201), answer.read()

    def until(self, path: str, condition: Callable[[Any], bool], within_s: float = 60.0) -> Any:
        """Read from the admin API until what it says fulfils the condition."""
        ends = time.monotonic() + within_s
        while not condition(found := self.read(path)):
            assert time.monotonic() < ends, f"{path} not within {within_s} s: {found}"
            time.sleep(0.05)
        return found

    async def _play(self) -> None:
        self._playing = [asyncio.create_task(self._keep(agent)) for agent in self.agents.values()]

    async def _keep(self, agent: DemoAgent) -> None:
        """Play an agent again and again, as its own would reconnect."""
        while True:
            agent.port = int(self._listen.agents.rpartition(":")[2])
            with suppress(OSError, AssertionError):  # the server is away for now
                await agent.play()
            await asyncio.sleep(0.2)

    async def _leave(self) -> None:
        for task in self._playing:
            task.cancel()
        await asyncio.gather(*self._playing, return_exceptions=True)
        for agent in self.agents.values():
            await agent.close()

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        done: Future[Any] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return done.result(120)
