"""GET /nodes, /nodes/{id}, POST /nodes/{id}/state, /nodes/{id}/forget: nodes, and what is wanted of them."""

from typing import Any

import msgspec
from litestar import Request, get, post
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath

from llmgw.core.errors import NotFound
from llmgw.core.shape import nearest
from llmgw.ui.api.bodies import read_body
from llmgw.ui.api.operations import Operations
from llmgw.ui.present.nodes import NodeView, node_view, node_views


class StateRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What is wanted of a node.

    Attributes:
        state: "ready" takes work; "cordoned" takes no more; "draining" gives up what it has too.
    """

    state: str


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What is wanted of a node now.

    Attributes:
        replicas: ids of what it still runs or looks after.
    """

    id: str
    state: str
    replicas: tuple[str, ...]


class Forgotten(msgspec.Struct, frozen=True, kw_only=True):
    """A node that is known no more."""

    id: str


def routes(operations: Operations) -> list[HTTPRouteHandler]:
    """Make the handlers."""

    @get("/nodes")
    async def nodes() -> tuple[NodeView, ...]:
        clock = operations.clock
        return node_views(operations.fleet(), operations.upkeep.events, now=clock.now(), at=clock.at())

    @get("/nodes/{node_id:str}")
    async def node(node_id: FromPath[str]) -> NodeView:
        known = operations.fleet().nodes
        if node_id not in known:
            others = (
                nearest(node_id, list(known)) if known else "no node has registered since the server started"
            )
            raise NotFound(f"no node is called {node_id!r}; {others}")
        clock, events = operations.clock, operations.upkeep.events(node_id)
        return node_view(known[node_id], events, now=clock.now(), at=clock.at())

    @post("/nodes/{node_id:str}/state", status_code=200)
    async def set_state(node_id: FromPath[str], request: Request[Any, Any, Any]) -> Wanted:
        body = await read_body(request, StateRequest)
        state = await operations.upkeep.set_state(node_id, body.state)
        found = operations.fleet().nodes.get(node_id)
        replicas = {shard.replica for shard in found.shards.values()} if found else set()
        return Wanted(id=node_id, state=str(state), replicas=tuple(sorted(replicas)))

    @post("/nodes/{node_id:str}/forget", status_code=200)
    async def forget(node_id: FromPath[str]) -> Forgotten:
        await operations.upkeep.forget(node_id)
        return Forgotten(id=node_id)

    return [nodes, node, set_state, forget]
