"""A node's logs without ssh: the newest lines of a source, and those that come."""

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

from litestar import Request, Response, get
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath
from litestar.response import Stream

from llmgw.core.fleet.logs import LogEvent
from llmgw.ui.api.logs import known_node, lines_wanted, source_wanted
from llmgw.ui.events import LONGEST_STREAM_S
from llmgw.ui.log_events import log_events
from llmgw.ui.pages.door import may_look_of
from llmgw.ui.pages.site import HEADERS, Site
from llmgw.ui.present.log_page import LINE_COUNTS, LOUD, lines_of, source_links


def routes(site: Site) -> list[HTTPRouteHandler]:
    """Make the handlers."""
    operations = site.operations

    @get("/nodes/{node_id:str}/logs")
    async def logs(request: Request[Any, Any, Any], node_id: FromPath[str]) -> Response[str]:
        known_node(operations, node_id)
        query = request.query_params
        source, count = source_wanted(query.get("source")), lines_wanted(query.get("lines"))
        tail = await operations.logs.tail(node_id, source, count)
        return site.still(
            request,
            "logs.html",
            f"Logs of {node_id}",
            node=node_id,
            is_registered=node_id in operations.fleet().nodes,
            source=source,
            count=count,
            counts=LINE_COUNTS,
            follows=query.get("follow") != "0",
            links=source_links(tail.sources, source, operations.fleet().nodes.get(node_id)),
            lines=lines_of(tail.lines),
            left_out=tail.left_out,
            error=tail.error,
            loud=LOUD,
        )

    @get("/nodes/{node_id:str}/logs/follow")
    async def follow(request: Request[Any, Any, Any], node_id: FromPath[str]) -> Stream:
        known_node(operations, node_id)
        query = request.query_params
        # A browser that connects again by itself says where it was; the script says it when it has to begin anew.
        cursor = request.headers.get("last-event-id") or query.get("cursor") or None
        events = operations.logs.follow(
            node_id, source_wanted(query.get("source")), lines_wanted(query.get("lines")), cursor
        )
        headers = HEADERS | {"x-accel-buffering": "no"}
        return Stream(
            _sent(site, events, may_look_of(request)), media_type="text/event-stream", headers=headers
        )

    return [logs, follow]


async def _sent(
    site: Site, events: AsyncIterator[LogEvent], may_look: Callable[[], bool]
) -> AsyncIterator[bytes]:
    """Send events until the viewer leaves, or must show again that it may look."""
    ends_now = site.operations.clock.now() + LONGEST_STREAM_S
    async with aclosing(log_events(events, may_look=may_look)) as messages:
        async for message in messages:
            yield message
            if site.operations.clock.now() >= ends_now:
                return
