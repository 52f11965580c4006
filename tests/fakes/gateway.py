"""A router under a real uvicorn server on loopback, with an application that answers everything outside /v1."""

import asyncio
import socket
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import uvicorn
from fakes.engine import FakeEngine
from fakes.http_client import KEY, HttpClient

from llmgw.core.accounts.access import KeyRecord, Scope, digest_of
from llmgw.core.ids import Generation
from llmgw.core.routing.table import CHAT, COMPLETIONS, Endpoint, ModelRoute, build_table
from llmgw.router.app import Router
from llmgw.runtime.clock import Clock, SystemClock


def key_record(key: str = KEY, **fields: Any) -> KeyRecord:
    given: dict[str, Any] = {
        "id": 1,
        "name": "test",
        "prefix": key[:12],
        "digest": digest_of(key),
        "scope": Scope.INFERENCE,
        "created_at": datetime(2030, 1, 1, tzinfo=UTC),
    }
    return KeyRecord(**{**given, **fields})


def endpoint(engine: FakeEngine | int, ordinal: int = 0, **fields: Any) -> Endpoint:
    given: dict[str, Any] = {
        "replica": f"gemma.{ordinal}",
        "model": "gemma",
        "generation": Generation(1, ordinal),
        "node": f"node-{ordinal}",
        "host": "127.0.0.1",
        "port": engine if isinstance(engine, int) else engine.port,
        "engine": "llama.cpp",
        "profile": "cpu",
        "capacity": 4,
        "tasks": (CHAT, COMPLETIONS),
    }
    return Endpoint(**{**given, **fields})


async def fallback_app(scope: Any, receive: Any, send: Any) -> None:
    """Echo the path and the body; greet a websocket."""
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.send", "text": "hi"})
        await receive()
        return
    body = b""
    while (message := await receive())["type"] == "http.request":
        body += message["body"]
        if not message["more_body"]:
            break
    answer = scope["path"].encode() + b"|" + body
    head = {"type": "http.response.start", "status": 200}
    await send({**head, "headers": [(b"content-length", b"%d" % len(answer))]})
    await send({"type": "http.response.body", "body": answer})


class Gateway:
    """Serves model `gemma` from the given engines to whoever has the key of `http_client.KEY`."""

    def __init__(
        self,
        *engines: FakeEngine | int,
        clock: Clock | None = None,
        max_body_bytes: int = 1 << 20,
        keep_alive_s: int = 60,
    ) -> None:
        self.router = Router(clock or SystemClock(), max_body_bytes)
        self.router.set_keys({digest_of(KEY): key_record()})
        self.serve(ModelRoute(name="gemma", endpoints=tuple(endpoint(e, i) for i, e in enumerate(engines))))
        self.config = uvicorn.Config(
            self._app,
            interface="asgi3",
            http=self.router.protocol_class(),
            lifespan="off",
            log_config=None,
            timeout_keep_alive=keep_alive_s,
            timeout_graceful_shutdown=10,
        )
        self.server = uvicorn.Server(self.config)
        self.port = 0

    def serve(self, *routes: ModelRoute) -> None:
        self.router.replace_table(build_table(routes))

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["path"].startswith("/v1"):
            await self.router.asgi(scope, receive, send)
        else:
            await fallback_app(scope, receive, send)

    async def __aenter__(self) -> "Gateway":
        made = socket.socket()
        made.bind(("127.0.0.1", 0))
        made.setblocking(False)
        self.port = made.getsockname()[1]
        self._socket = made
        self.config.load()
        self.server.lifespan = self.config.lifespan_class(self.config)
        await self.server.startup(sockets=[made])
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.router.close()
        await self.stop()

    async def stop(self) -> None:
        """Shut the server down as a signal would."""
        if self.server.started:
            self.server.started = False
            await self.server.shutdown(sockets=[self._socket])

    def client(self) -> HttpClient:
        return HttpClient(self.port)

    async def ask(self, data: bytes) -> Any:
        async with self.client() as client:
            return await client.ask(data)

    def outstanding(self) -> Sequence[int]:
        states = self.router._endpoints._states.values()
        return [state.outstanding for state in states]


async def until(condition: Any, deadline_s: float = 5.0) -> None:
    """Wait until the condition holds, or fail."""
    async with asyncio.timeout(deadline_s):
        while not condition():  # noqa: ASYNC110 - what is waited for happens in sockets, which set no event
            await asyncio.sleep(0.002)
