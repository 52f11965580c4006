"""GET /nodes, /nodes/{id}: nodes as last observed."""

from litestar import get
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath

from llmgw.core.errors import NotFound
from llmgw.core.shape import nearest
from llmgw.ui.api.operations import Operations
from llmgw.ui.present.nodes import NodeView, node_view, node_views


def routes(operations: Operations) -> list[HTTPRouteHandler]:
    """Make the handlers."""

    @get("/nodes")
    async def nodes() -> tuple[NodeView, ...]:
        clock = operations.clock
        return node_views(operations.fleet(), now=clock.now(), at=clock.at())

    @get("/nodes/{node_id:str}")
    async def node(node_id: FromPath[str]) -> NodeView:
        known = operations.fleet().nodes
        if node_id not in known:
            others = (
                nearest(node_id, list(known)) if known else "no node has registered since the server started"
            )
            raise NotFound(f"no node is called {node_id!r}; {others}")
        return node_view(known[node_id], now=operations.clock.now(), at=operations.clock.at())

    return [nodes, node]
