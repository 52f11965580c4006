"""A whole server in this process, on ports of its own, with short patience."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from fakes.http_client import Answer, HttpClient, get
from fakes.linked_agent import LinkedAgent

from llmgw.config.server import Listen, Nodes, RouterSettings, ServerConfig
from llmgw.server.main import Listening, run_server

ANY_PORT = Listen(client="127.0.0.1:0", admin="127.0.0.1:0", agents="127.0.0.1:0")
IMPATIENT = Nodes(heartbeat=0.5, unreachable_after=2.0, lost_after=0.3, start_grace=1.5)


def a_config(folder: Path, **given: Any) -> ServerConfig:
    return ServerConfig(
        **{
            "data_dir": str(folder / "server"),
            "listen": ANY_PORT,
            "nodes": IMPATIENT,
            "router": RouterSettings(),
        }
        | given
    )


class RunningServer:
    """Runs for as long as the block lasts; entering it waits until it listens."""

    def __init__(self, folder: Path, **given: Any) -> None:
        self.config = a_config(folder, **given)
        self.listening: Listening
        self.task: asyncio.Task[None]
        self._stop = asyncio.Event()
        self._links: list[str] = []

    async def __aenter__(self) -> Self:
        listens: asyncio.Future[Listening] = asyncio.Future()
        self.task = asyncio.create_task(
            run_server(
                self.config, stop=self._stop, on_listening=listens.set_result, on_no_admin=self._links.append
            )
        )
        await asyncio.wait({self.task, listens}, return_when=asyncio.FIRST_COMPLETED)
        if self.task.done():
            await self.task
        self.listening = listens.result()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop()
        await self.task

    def stop(self) -> None:
        self._stop.set()

    def first_token(self) -> str:
        """Give the token of the link that makes the first admin."""
        return self._links[0].partition("token=")[2]

    def port(self, name: str) -> int:
        return int(getattr(self.listening, name).rpartition(":")[2])

    def agent(self) -> LinkedAgent:
        return LinkedAgent(self.port("agents"))

    async def ask(self, request: bytes, *, of: str = "client") -> Answer:
        async with HttpClient(self.port(of)) as client:
            return await client.ask(request)

    async def read(self, path: str) -> Any:
        """Ask the admin API for something."""
        answer = await self.ask(get(f"/api/v1/{path}", key=None), of="admin")
        assert answer.status == 200, answer
        return json.loads(answer.body)

    async def tell(self, path: str, body: Any) -> Any:
        """Post something to the admin API."""
        data = json.dumps(body).encode()
        head = f"POST /api/v1/{path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        answer = await self.ask(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data, of="admin")
        assert answer.status in (200, 201), answer
        return json.loads(answer.body)

    async def until(self, path: str, condition: Callable[[Any], Any], within_s: float = 15.0) -> Any:
        """Read from the admin API until what it says fulfils the condition."""
        found: Any = None
        try:
            async with asyncio.timeout(within_s):
                # The server tells nobody that something changed.
                while not condition(found := await self.read(path)):  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise AssertionError(f"{path} not within {within_s} s: {found}") from None
        return found
