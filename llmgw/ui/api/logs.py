"""GET /nodes/{id}/logs and /nodes/{id}/logs/follow: the newest lines of a node's logs, and the ones that come."""

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

import msgspec
from litestar import Request, Response, get
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath
from litestar.response import Stream

from llmgw.core.errors import NotFound
from llmgw.core.fleet.logs import AGENT, DEFAULT_LINES, MOST_LINES
from llmgw.core.shape import nearest
from llmgw.ui.api.doors import may_look_of
from llmgw.ui.api.operations import Operations
from llmgw.ui.log_events import log_events


class LogsView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The newest lines of a source.

    Attributes:
        sources: all that the node can show; never empty.
        error: why there is nothing to show.
        left_out: how many older lines of those asked for had no room.
    """

    node: str
    source: str
    lines: tuple[str, ...]
    sources: tuple[str, ...]
    error: str | None = None
    left_out: int = 0


def known_node(operations: Operations, node_id: str) -> None:
    """Look whether a node is known at all, be it connected or not.

    Raises:
        NotFound: it is not; the message names the nearest one that is.
    """
    known = [*operations.fleet().nodes, *operations.status().absent]
    if node_id not in known:
        others = nearest(node_id, known) if known else "no node has registered since the server started"
        raise NotFound(f"no node called {node_id!r} has a stream to this server; {others}")


def lines_wanted(given: str | None) -> int:
    """Read how many lines are asked for: 300 when that is no number, and never more than 2,000 or fewer than 1."""
    try:
        wanted = int(given or "")
    except ValueError:
        return DEFAULT_LINES
    return max(1, min(wanted, MOST_LINES))


def source_wanted(given: str | None) -> str:
    """Read which source is asked for; the agent's own lines when none is."""
    return given or AGENT


def routes(operations: Operations) -> list[HTTPRouteHandler]:
    """Make the handlers."""

    @get("/nodes/{node_id:str}/logs")
    async def logs(node_id: FromPath[str], request: Request[Any, Any, Any]) -> Response[LogsView]:
        known_node(operations, node_id)
        source = source_wanted(request.query_params.get("source"))
        lines = lines_wanted(request.query_params.get("lines"))
        tail = await operations.logs.tail(node_id, source, lines)
        view = LogsView(
            node=node_id,
            source=source,
            lines=tail.lines,
            sources=tail.sources,
            error=tail.error,
            left_out=tail.left_out,
        )
        nothing = tail.error is not None and not tail.lines
        return Response(view, status_code=502 if nothing else 200)

    @get("/nodes/{node_id:str}/logs/follow")
    async def follow(node_id: FromPath[str], request: Request[Any, Any, Any]) -> Stream:
        known_node(operations, node_id)
        query = request.query_params
        # A browser that connects again says by itself where it was; that is later than what the page's address says.
        cursor = request.headers.get("last-event-id") or query.get("cursor") or None
        events = operations.logs.follow(
            node_id, source_wanted(query.get("source")), lines_wanted(query.get("lines")), cursor
        )
        return Stream(
            _sent(events, may_look_of(request)),
            media_type="text/event-stream",
            headers={"x-accel-buffering": "no"},
        )

    return [logs, follow]


async def _sent(events: AsyncIterator[Any], may_look: Callable[[], bool]) -> AsyncIterator[bytes]:
    async with aclosing(log_events(events, may_look=may_look)) as messages:
        async for message in messages:
            yield message
