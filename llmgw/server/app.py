"""The two HTTP servers: uvicorn without its signals, its logs and its middleware, and with an end of our own.

The end of one: it takes no new connection, and requests under way may go on for `drain_s`. Then whoever still waits is
told so (an error event in a stream, a 503 where nothing was said yet), has a moment to take that, and is cut off.
"""

import asyncio
import logging
import math
import socket
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

import uvicorn

from llmgw.router.front import Front
from llmgw.runtime.listening import many

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

log = logging.getLogger(__name__)

KEEP_ALIVE_S = 75
LAST_WORDS_S = 1.0
"""How long a client has to take what it is told at the deadline."""
STUCK_S = 5
"""How much later an application that does not let itself be cancelled is left alone."""


class HttpServer(uvicorn.Server):
    """A uvicorn server that leaves signals to the program and tells when it is `up`; `should_exit` ends it."""

    def __init__(self, config: uvicorn.Config, *, drain_s: float) -> None:
        super().__init__(config)
        self.up = asyncio.Event()
        self._drain_s = drain_s

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to take connections."""
        await super().startup([copy for one in sockets or () for copy in many(one)])
        self.up.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no new connection, and end those there are."""
        for server in self.servers:
            server.close()
        # Connections that were accepted in this turn of the loop begin in the next; they must be told as well.
        for _ in range(3):
            await asyncio.sleep(0)
        deadline = asyncio.create_task(self._end_in_time())
        try:
            await super().shutdown(sockets)
        finally:
            deadline.cancel()

    async def _end_in_time(self) -> None:
        await asyncio.sleep(self._drain_s)
        open_still = [one for one in self.server_state.connections if isinstance(one, Front)]
        log.warning(
            "%d connections were still busy after %g s; their clients are told that the server ends",
            len(open_still),
            self._drain_s,
        )
        for connection in open_still:
            connection.end_now()
        await asyncio.sleep(LAST_WORDS_S)
        for task in tuple(self.server_state.tasks):
            task.cancel()
        for left in tuple(self.server_state.connections):
            left.transport.abort()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


def http_server(app: App, *, protocol: type[Front], drain_s: float) -> HttpServer:
    """Make a server for `serve(sockets=...)`.

    Args:
        protocol: the class of a client's connection.
        drain_s: how long requests in flight may go on when the server ends, seconds.
    """
    return HttpServer(
        uvicorn.Config(
            app,
            http=protocol,
            ws="none",
            loop="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=math.ceil(drain_s + LAST_WORDS_S) + STUCK_S,
        ),
        drain_s=drain_s,
    )


def client_surface(router: App, rest: App) -> App:
    """Make the application of the client port: /v1 is the router's, all else the other application's."""

    async def surface(scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        below_v1 = scope["type"] == "http" and (path == "/v1" or path.startswith("/v1/"))
        await (router if below_v1 else rest)(scope, receive, send)

    return surface
