"""GET /weights, POST /weights/collect: what weights lie where, and removing what nobody wants."""

from typing import Any

import msgspec
from litestar import Request, get, post
from litestar.handlers import HTTPRouteHandler

from llmgw.core.errors import BadInput, Problem
from llmgw.core.fleet.collect import Collected
from llmgw.ui.api.bodies import read_body
from llmgw.ui.api.operations import Operations
from llmgw.ui.present.weights import WeightsView, weights_view

MOST_NAMES = 10_000


class CollectRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be removed.

    Attributes:
        names: cache names; empty takes all that nobody wants.
        nodes: by these alone; empty asks all.
    """

    names: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()


class CollectedView(msgspec.Struct, frozen=True, kw_only=True):
    """What became of it, a node at a time."""

    nodes: tuple[Collected, ...]
    freed_bytes: int


def routes(operations: Operations) -> list[HTTPRouteHandler]:
    """Make the handlers."""

    @get("/weights")
    async def weights() -> WeightsView:
        return weights_view(operations.weights.stocks(), operations.fleet())

    @post("/weights/collect", status_code=200)
    async def collect(request: Request[Any, Any, Any]) -> CollectedView:
        body = await read_body(request, CollectRequest)
        if len(body.names) > MOST_NAMES:
            problem = Problem(("names",), f"wanted at most {MOST_NAMES}, found {len(body.names)}")
            raise BadInput("the body cannot be used", [problem])
        done = await operations.weights.collect(body.names, body.nodes)
        return CollectedView(nodes=done, freed_bytes=sum(one.freed_bytes for one in done))

    return [weights, collect]
