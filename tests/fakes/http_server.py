"""A real HTTP server on loopback for an application, in a thread of its own."""

import socket
import threading
from typing import Any

import uvicorn


class HttpServer:
    """Serves from the moment it is made; requests that come before the loop runs wait in the socket."""

    def __init__(self, app: Any) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        config = uvicorn.Config(app, log_level="error", ws="none", lifespan="on")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]})
        self._thread.start()

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()
