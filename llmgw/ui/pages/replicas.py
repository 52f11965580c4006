"""The list of replicas with what their engines said last, and the verb on them: restart."""

from typing import Any

from litestar import Request, Response, get, post
from litestar.handlers import HTTPRouteHandler
from litestar.response import Redirect

from llmgw.ui.api.named import named
from llmgw.ui.api.operations import Operations
from llmgw.ui.pages.door import read_form
from llmgw.ui.pages.site import Site
from llmgw.ui.picture import Fragment, Shown, unless
from llmgw.ui.present.replica_rows import failed_first, replica_rows


def look(operations: Operations, _name: str) -> Shown:
    """Look at every engine process."""
    clock = operations.clock
    rows = failed_first(
        replica_rows(
            operations.catalog(),
            operations.fleet(),
            now=clock.now(),
            at=clock.at(),
            orders=operations.upkeep.orders,
        )
    )
    return Shown(
        title="Replicas",
        parts=(Fragment("no-replicas", "parts/empty.html", unless(rows, "Nothing runs.")),),
        lists={
            "replica-rows": tuple(
                Fragment(f"replica:{row.key}", "parts/replica_full.html", row) for row in rows
            )
        },
    )


def routes(site: Site) -> list[HTTPRouteHandler]:
    """Make the handlers."""

    @get("/replicas")
    async def replicas(request: Request[Any, Any, Any]) -> Response[str]:
        return await site.page(request, "replicas.html", "replicas")

    @post("/replicas/{target:path}")
    async def restart(request: Request[Any, Any, Any]) -> Redirect:
        await read_form(request)
        site.operations.upkeep.restart(named(request, "/restart"))
        return site.see("replicas")

    return [replicas, restart]
