"""Talk to the admin API; of the standard library alone, for ctl must start fast."""

import http.client
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, urlencode

from llmgw.ctl.address import Server
from llmgw.ctl.failure import Failed, Refused

TIMEOUT_S = 30.0
MOST_BYTES = 64 * 1024**2


class Client:
    """Sends one request after the other to a server, each over a connection of its own."""

    def __init__(self, server: Server, key: str | None = None, timeout_s: float = TIMEOUT_S) -> None:
        self.server = server
        self._key = key
        self._timeout_s = timeout_s

    def get(self, *path: str, **query: str) -> Any:
        """Read what is below /api/v1; the parts of the path are quoted.

        Raises:
            Refused: the server said no.
            Failed: nobody answered, or somebody who is not llmgw.
        """
        return self._ask("GET", path, query, None)

    def post(self, *path: str, body: dict[str, Any] | None = None) -> Any:
        """Tell what is below /api/v1; raises as `get` does."""
        return self._ask("POST", path, {}, body)

    def look(self, *path: str, **query: str) -> tuple[int, Any]:
        """Read what answers in a shape of its own also when there is nothing to show.

        Returns:
            The HTTP status and the body.

        Raises:
            Refused: the server said no in the one shape of errors.
            Failed: nobody answered, or somebody who is not llmgw.
        """
        status, content = self._exchange("GET", _target(path, query), None)
        return status, self._checked(status, content, own=True)

    @contextmanager
    def stream(self, *path: str, silent_s: float, **query: str) -> Iterator[Iterator[bytes]]:
        """Read an answer that does not end, line by line; the iterator ends when the connection does.

        Args:
            silent_s: how long nothing may come before the connection is taken for dead.

        Raises:
            Refused: the server said no.
            Failed: nobody answered, or the connection broke.
        """
        connection = self._connection(silent_s)
        try:
            with self._spoken(silent_s):
                connection.request("GET", _target(path, query), None, self._headers("text/event-stream"))
                response = connection.getresponse()
                if response.status != 200:
                    self._checked(response.status, response.read(MOST_BYTES), own=False)
                yield iter(response.readline, b"")
        finally:
            connection.close()

    def _ask(
        self, method: str, path: tuple[str, ...], query: dict[str, str], body: dict[str, Any] | None
    ) -> Any:
        status, content = self._exchange(method, _target(path, query), body)
        return self._checked(status, content, own=False)

    def _checked(self, status: int, content: bytes, *, own: bool) -> Any:
        """Read an answer; with `own`, one of a failure may be of another shape than all errors have."""
        try:
            answer = json.loads(content)
        except ValueError as error:
            raise self._not_llmgw(f"HTTP {status}, and no JSON") from error
        if status < 400:
            return answer
        if isinstance(answer, dict) and isinstance(answer.get("error"), dict):
            raise Refused(self._refusal(status, answer["error"]), answer)
        if own and isinstance(answer, dict) and isinstance(answer.get("error"), str):
            return answer
        raise self._not_llmgw(f"HTTP {status}")

    def _connection(self, timeout_s: float) -> http.client.HTTPConnection:
        kind = http.client.HTTPSConnection if self.server.tls else http.client.HTTPConnection
        return kind(self.server.host, self.server.port, timeout=timeout_s)

    def _headers(self, accept: str) -> dict[str, str]:
        return {"accept": accept} | ({"authorization": f"Bearer {self._key}"} if self._key else {})

    def _exchange(self, method: str, target: str, body: dict[str, Any] | None) -> tuple[int, bytes]:
        connection = self._connection(self._timeout_s)
        headers = self._headers("application/json")
        if body is not None:
            headers["content-type"] = "application/json"
        try:
            with self._spoken(self._timeout_s):
                connection.request(method, target, None if body is None else json.dumps(body), headers)
                response = connection.getresponse()
                return response.status, response.read(MOST_BYTES)
        finally:
            connection.close()

    @contextmanager
    def _spoken(self, timeout_s: float) -> Iterator[None]:
        """Say in words what goes wrong while the server is spoken to."""
        server = self.server
        try:
            yield
        except TimeoutError as error:
            raise self._unreachable(f"no answer within {timeout_s:g} s") from error
        except socket.gaierror as error:
            raise self._unreachable(f"the name {server.host!r} cannot be resolved") from error
        except OSError as error:
            raise self._unreachable((error.strerror or str(error)).lower()) from error
        except http.client.IncompleteRead as error:
            raise self._unreachable("the connection broke") from error
        except http.client.HTTPException as error:
            raise self._not_llmgw("no HTTP") from error

    def _unreachable(self, why: str) -> Failed:
        return Failed(
            f"no server reached at {self.server} ({self.server.source}): {why}; "
            "start one with 'llmgw server', or name another with --server or LLMGW_SERVER"
        )

    def _not_llmgw(self, found: str) -> Failed:
        return Failed(
            f"what answers at {self.server} ({self.server.source}) is not llmgw's admin API ({found}); "
            "name another with --server or LLMGW_SERVER"
        )

    def _refusal(self, status: int, error: dict[str, Any]) -> str:
        message = str(error.get("message", f"HTTP {status}"))
        for problem in error.get("problems") or ():
            where = ".".join(str(part) for part in problem["path"])
            message += f"; {where}: {problem['message']}" if where else f"; {problem['message']}"
        if status in (401, 403):
            message += f" (asked at {self.server}; ctl takes the key from LLMGW_API_KEY or --key)"
        return message


def _target(path: tuple[str, ...], query: dict[str, str]) -> str:
    target = "/api/v1/" + "/".join(quote(part, safe="") for part in path)
    return f"{target}?{urlencode(query)}" if query else target
