"""Talk to the admin API; of the standard library alone, for ctl must start fast."""

import http.client
import json
import socket
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

    def _ask(
        self, method: str, path: tuple[str, ...], query: dict[str, str], body: dict[str, Any] | None
    ) -> Any:
        target = "/api/v1/" + "/".join(quote(part, safe="") for part in path)
        if query:
            target += f"?{urlencode(query)}"
        status, content = self._exchange(method, target, body)
        try:
            answer = json.loads(content)
        except ValueError as error:
            raise self._not_llmgw(f"HTTP {status}, and no JSON") from error
        if status < 400:
            return answer
        if not isinstance(answer, dict) or not isinstance(answer.get("error"), dict):
            raise self._not_llmgw(f"HTTP {status}")
        raise Refused(self._refusal(status, answer["error"]), answer)

    def _exchange(self, method: str, target: str, body: dict[str, Any] | None) -> tuple[int, bytes]:
        server = self.server
        kind = http.client.HTTPSConnection if server.tls else http.client.HTTPConnection
        connection = kind(server.host, server.port, timeout=self._timeout_s)
        headers = {"accept": "application/json"}
        if self._key:
            headers["authorization"] = f"Bearer {self._key}"
        if body is not None:
            headers["content-type"] = "application/json"
        try:
            connection.request(method, target, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            return response.status, response.read(MOST_BYTES)
        except TimeoutError as error:
            raise self._unreachable(f"no answer within {self._timeout_s:g} s") from error
        except socket.gaierror as error:
            raise self._unreachable(f"the name {server.host!r} cannot be resolved") from error
        except OSError as error:
            raise self._unreachable((error.strerror or str(error)).lower()) from error
        except http.client.HTTPException as error:
            raise self._not_llmgw("no HTTP") from error
        finally:
            connection.close()

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
