"""The page of one node, and the verbs on it: drain, cordon, uncordon, forget."""

from typing import Any

from litestar import Request, Response, get, post
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath
from litestar.response import Redirect

from llmgw.core.errors import NotFound
from llmgw.core.fleet.snapshot import Node
from llmgw.core.shape import nearest
from llmgw.ui.api.operations import Operations
from llmgw.ui.pages.door import read_form
from llmgw.ui.pages.site import Site
from llmgw.ui.picture import Fragment, Shown, unless
from llmgw.ui.present.node_page import NodePage, node_page


def find_node(operations: Operations, node_id: str) -> Node:
    """Find a node that has registered.

    Raises:
        NotFound: there is none of this id; the message says whether it is known from before.
    """
    known = operations.fleet().nodes
    if node_id in known:
        return known[node_id]
    if node_id in operations.status().absent:
        raise NotFound(
            f"node {node_id!r} is known from before and has not registered since the server started; start its agent, "
            f"or forget it with 'llmgw ctl nodes forget {node_id}'"
        )
    others = nearest(node_id, list(known)) if known else "no node has registered since the server started"
    raise NotFound(f"no node is called {node_id!r}; {others}")


def look(operations: Operations, node_id: str) -> Shown:
    """Look at one node."""
    clock, node = operations.clock, find_node(operations, node_id)
    page = node_page(
        node,
        operations.catalog(),
        operations.fleet(),
        operations.upkeep.events(node_id),
        orders=operations.upkeep.orders,
        now=clock.now(),
        at=clock.at(),
    )
    return Shown(title=node_id, parts=_parts(page), lists=_lists(page))


def routes(site: Site) -> list[HTTPRouteHandler]:
    """Make the handlers."""

    @get("/nodes/{node_id:str}")
    async def node(request: Request[Any, Any, Any], node_id: FromPath[str]) -> Response[str]:
        return await site.page(request, "node.html", "node", node_id)

    @post("/nodes/{node_id:str}/state")
    async def set_state(request: Request[Any, Any, Any], node_id: FromPath[str]) -> Redirect:
        form = await read_form(request)
        await site.operations.upkeep.set_state(node_id, form.get("state", ""))
        return site.see("nodes", node_id)

    @get("/nodes/{node_id:str}/forget")
    async def ask_forget(request: Request[Any, Any, Any], node_id: FromPath[str]) -> Response[str]:
        find_node(site.operations, node_id)
        return site.still(
            request,
            "confirm.html",
            f"Forget {node_id}?",
            text="Its replicas are placed elsewhere, and what was wanted of it is forgotten. An agent that comes back "
            "under this name is a new node. Engines that still run there are not touched.",
            path=site.rendering.url("nodes", node_id, "forget"),
            verb="Forget the node",
            back=site.rendering.url("nodes", node_id),
        )

    @post("/nodes/{node_id:str}/forget")
    async def forget(request: Request[Any, Any, Any], node_id: FromPath[str]) -> Redirect:
        await read_form(request)
        await site.operations.upkeep.forget(node_id)
        return site.see("")

    return [node, set_state, ask_forget, forget]


def _parts(page: NodePage) -> tuple[Fragment, ...]:
    return (
        Fragment("head", "parts/node_head.html", page.head),
        Fragment("facts", "parts/facts.html", page.facts),
        Fragment("gpus", "parts/gpus.html", page.gpus),
        Fragment("mounts", "parts/mounts.html", page.mounts),
        Fragment("engines", "parts/engines.html", page.engines),
        Fragment("networks", "parts/networks.html", page.networks),
        Fragment("events", "parts/events.html", page.events),
        Fragment("no-replicas", "parts/empty.html", unless(page.replicas, "Nothing runs here.")),
        Fragment("no-weights", "parts/empty.html", _no_weights(page)),
    )


def _lists(page: NodePage) -> dict[str, tuple[Fragment, ...]]:
    return {
        "replica-rows": tuple(
            Fragment(f"replica:{row.key}", "parts/replica_row.html", row) for row in page.replicas
        ),
        "weight-rows": tuple(
            Fragment(f"weight:{row.key}", "parts/weight_row.html", row) for row in page.weights or ()
        ),
    }


def _no_weights(page: NodePage) -> str | None:
    if page.weights is None:
        return "Its agent does not say what weights it holds."
    return unless(page.weights, "It holds no weights.")
