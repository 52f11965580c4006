"""The two HTTP servers: uvicorn without its signals, its logs and its middleware."""

import asyncio
import socket
from asyncio import Protocol
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

import uvicorn

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

KEEP_ALIVE_S = 75


class HttpServer(uvicorn.Server):
    """A uvicorn server that leaves signals to the program and tells when it is `up`; `should_exit` ends it."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to take connections."""
        await super().startup(sockets)
        self.up.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no new connection, and end those there are."""
        for server in self.servers:
            server.close()
        # Connections that were accepted in this turn of the loop begin in the next; they must be told as well.
        for _ in range(3):
            await asyncio.sleep(0)
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


def http_server(app: App, *, protocol: type[Protocol] | None, drain_s: int) -> HttpServer:
    """Make a server for `serve(sockets=...)`.

    Args:
        protocol: the class of a client's connection; None for uvicorn's own.
        drain_s: how long requests in flight may go on when the server ends, seconds.
    """
    return HttpServer(
        uvicorn.Config(
            app,
            http=protocol or "httptools",
            ws="none",
            loop="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=drain_s,
        )
    )


def client_surface(router: App, rest: App) -> App:
    """Make the application of the client port: /v1 is the router's, all else the other application's."""

    async def surface(scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        below_v1 = scope["type"] == "http" and (path == "/v1" or path.startswith("/v1/"))
        await (router if below_v1 else rest)(scope, receive, send)

    return surface
