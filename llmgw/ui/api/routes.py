"""All of the admin API, below /api/v1."""

from typing import Any

from litestar import Router
from litestar.handlers import HTTPRouteHandler

from llmgw.ui.api import alarm, catalog, explain, keys, logs, models, nodes, replicas, status, users, weights
from llmgw.ui.api.operations import Operations

MOST_BODY_BYTES = 16 * 1024**2


def api_router(operations: Operations, guards: list[Any] | None = None) -> Router:
    """Make the API, behind these guards."""
    handlers: list[HTTPRouteHandler] = []
    for noun in (status, alarm, nodes, logs, models, replicas, catalog, explain, keys, users, weights):
        handlers += noun.routes(operations)
    return Router("/api/v1", route_handlers=handlers, guards=guards or [])
