"""The two applications of the admin API: without login on the admin listener, with an admin key on the client port."""

from collections.abc import Callable
from typing import Any

from litestar import Litestar, Router
from litestar.datastructures import ResponseHeader
from litestar.exceptions import HTTPException
from litestar.handlers import HTTPRouteHandler

from llmgw.core.errors import LlmgwError
from llmgw.ui.api import alarm, catalog, explain, health, keys, models, nodes, replicas, status
from llmgw.ui.api.doors import FindKey, admin_key_guard, refuse_other_sites
from llmgw.ui.api.errors import on_error, on_fault, on_http_error
from llmgw.ui.api.operations import Operations

MOST_BODY_BYTES = 16 * 1024**2


def admin_app(operations: Operations, *, debug: bool = False) -> Litestar:
    """Make the application of the admin listener: /api/v1 and /health, asking nobody for a key."""
    return _app([*health.routes(), _api(operations)], before_request=refuse_other_sites, debug=debug)


def client_app(operations: Operations, *, find_admin_key: FindKey) -> Litestar:
    """Make the application that the client port hands everything to that is not below /v1.

    Args:
        find_admin_key: finds the record of a presented key, or says why it opens no door.
    """
    return _app([_api(operations, guards=[admin_key_guard(find_admin_key)])])


def _api(operations: Operations, guards: list[Any] | None = None) -> Router:
    handlers: list[HTTPRouteHandler] = []
    for noun in (status, alarm, nodes, models, replicas, catalog, explain, keys):
        handlers += noun.routes(operations)
    return Router("/api/v1", route_handlers=handlers, guards=guards or [])


def _app(
    routes: list[Any], *, before_request: Callable[[Any], None] | None = None, debug: bool = False
) -> Litestar:
    return Litestar(
        route_handlers=routes,
        before_request=before_request,
        exception_handlers={LlmgwError: on_error, HTTPException: on_http_error, Exception: on_fault},
        response_headers=[ResponseHeader(name="cache-control", value="no-store")],
        request_max_body_size=MOST_BODY_BYTES,
        openapi_config=None,
        logging_config=None,
        debug=debug,
    )
