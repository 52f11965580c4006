"""The router as a server uses it: the data path for the hot routes, and an ASGI application for the rest of /v1."""

from collections.abc import Awaitable, Callable, MutableMapping
from functools import partial
from typing import Any

import msgspec

from llmgw.core.accounts.access import KeyRecord, Keyring, may_use_model
from llmgw.core.routing.lookup import find_model
from llmgw.core.routing.openai import Refused, error_body, model_list, model_object, shown
from llmgw.core.routing.table import RouteTable
from llmgw.router.authenticate import Authenticator
from llmgw.router.dispatch import Dispatcher, InFlight
from llmgw.router.endpoints import Endpoints
from llmgw.router.errors import refusal_headers
from llmgw.router.front import HOT_ROUTES, Front
from llmgw.router.proxy import RequestHead
from llmgw.router.upstream import Connector
from llmgw.runtime.clock import Clock

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_MODELS = "/v1/models"
_HOT_PATHS = frozenset(path.decode() for path in HOT_ROUTES)


class Router:
    """Serves /v1 from a route table and a keyring, both replaced as a whole while it runs.

    Give `protocol_class()` to the server as its HTTP protocol, and let the application on the same port hand every
    other HTTP request below /v1 to `asgi`. It belongs to one event loop.
    """

    def __init__(self, clock: Clock, max_body_bytes: int) -> None:
        self._connector = Connector(clock)
        self._endpoints = Endpoints(self._connector)
        self._authenticator = Authenticator(clock)
        self._dispatcher = Dispatcher(clock, self._endpoints, self._authenticator, max_body_bytes)

    def replace_table(self, table: RouteTable) -> None:
        """Route by this table from now on; requests under way keep the one they started with."""
        self._endpoints.replace(table)

    def set_keys(self, keyring: Keyring | None) -> None:
        """Let these keys in from now on; None says that the store cannot be read, and every request is told so."""
        self._authenticator.set_keys(keyring)

    def protocol_class(self) -> type[Front]:
        """Make the class of a client's connection, for uvicorn's `http=`."""
        return type("RouterProtocol", (Front,), {"__slots__": (), "dispatcher": self._dispatcher})

    def plain_protocol_class(self) -> type[Front]:
        """Make the class of a connection that keeps the limits of a client's, and hands all to the application."""
        return type(
            "PlainProtocol", (Front,), {"__slots__": (), "dispatcher": self._dispatcher, "hot_routes": {}}
        )

    def in_flight(self) -> list[InFlight]:
        """List the requests under way, the oldest first."""
        described = [exchange.describe() for exchange in self._dispatcher.in_flight]
        return sorted(described, key=lambda request: -request.age_s)

    async def close(self) -> None:
        """End what is under way and close every connection to an engine; call it after the server has shut down."""
        self._dispatcher.close()
        self._endpoints.close()
        await self._connector.close()

    async def asgi(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request below /v1 that the data path does not take."""
        head = RequestHead(scope["headers"])
        request_id = head.request_id or self._dispatcher.new_request_id()
        answer = self._answer(scope["method"], scope["path"], head)
        if isinstance(answer, Refused):
            body, headers, status = error_body(answer), refusal_headers(answer), answer.status
        else:
            body, headers, status = msgspec.json.encode(answer), [(b"content-type", b"application/json")], 200
        if status == 405:
            allowed = b"POST" if scope["path"] in _HOT_PATHS else b"GET"
            headers.append((b"allow", allowed))
        headers += [(b"content-length", b"%d" % len(body)), (b"x-request-id", request_id)]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _answer(self, method: str, path: str, head: RequestHead) -> dict[str, Any] | Refused:
        is_list = path in (_MODELS, f"{_MODELS}/")
        if not is_list and not path.startswith(f"{_MODELS}/"):
            return _not_here(method, path)
        if method not in ("GET", "HEAD"):
            return _wrong_method(method, path, "GET")
        key = self._authenticator.check(head.authorization)
        if isinstance(key, Refused):
            return key
        return self._list(key) if is_list else self._model(key, path.removeprefix(f"{_MODELS}/"))

    def _list(self, key: KeyRecord) -> dict[str, Any]:
        routes = self._endpoints.table.models()
        return model_list(route for route in routes if may_use_model(key, route.name))

    def _model(self, key: KeyRecord, name: str) -> dict[str, Any] | Refused:
        route = find_model(self._endpoints.table, name, partial(may_use_model, key))
        return route if isinstance(route, Refused) else dict(model_object(route))


def _not_here(method: str, path: str) -> Refused:
    if path in _HOT_PATHS and method == "POST":
        # Its target was written with escapes or a fragment; as it should be written, it would not have come here.
        return Refused(
            status=404,
            code="unknown_url",
            message=f"the target of this request stands for {path} and is not written so; write it as {path}",
        )
    if path in _HOT_PATHS:
        return _wrong_method(method, path, "POST")
    served = ", ".join(sorted([*_HOT_PATHS, _MODELS]))
    return Refused(
        status=404, code="unknown_url", message=f"{shown(path)} is not served here; served are {served}"
    )


def _wrong_method(method: str, path: str, allowed: str) -> Refused:
    message = f"{shown(path)} does not take {method}, it takes {allowed}"
    return Refused(status=405, code="method_not_allowed", message=message)
