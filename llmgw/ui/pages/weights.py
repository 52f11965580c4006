"""The weights page: what is held where, who wants it, and what nobody does; the verb on that: collect."""

from typing import Any

from litestar import Request, Response, get, post
from litestar.handlers import HTTPRouteHandler

from llmgw.ui.api.operations import Operations
from llmgw.ui.pages.door import read_form
from llmgw.ui.pages.site import Site
from llmgw.ui.picture import Fragment, Shown, unless
from llmgw.ui.present.fabrics import fabric_cards
from llmgw.ui.present.weight_rows import collected_rows, collection, weight_figures, weight_rows


def look(operations: Operations, _name: str) -> Shown:
    """Look at all weights."""
    fleet, found = operations.fleet(), operations.weights.stocks()
    rows, cards = weight_rows(found), fabric_cards(operations.catalog(), fleet)
    silent = [node.id for node in fleet.nodes.values() if node.weights is None]
    return Shown(
        title="Weights",
        parts=(
            Fragment("figures", "parts/weight_figures.html", weight_figures(found, silent)),
            Fragment("no-weights", "parts/empty.html", unless(rows, "No node says that it holds weights.")),
            Fragment("no-fabrics", "parts/empty.html", unless(cards, "No node names a fabric.")),
        ),
        lists={
            "weight-rows": tuple(Fragment(f"weight:{row.key}", "parts/weight_row.html", row) for row in rows),
            "fabric-cards": tuple(
                Fragment(f"fabric:{card.name}", "parts/fabric_card.html", card) for card in cards
            ),
        },
    )


def routes(site: Site) -> list[HTTPRouteHandler]:
    """Make the handlers."""

    @get("/weights")
    async def weights(request: Request[Any, Any, Any]) -> Response[str]:
        return await site.page(request, "weights.html", "weights")

    @get("/weights/collect")
    async def ask(request: Request[Any, Any, Any]) -> Response[str]:
        found = collection(site.operations.weights.stocks())
        return site.still(request, "collect.html", "Remove what nobody wants?", found=found)

    @post("/weights/collect", status_code=200)
    async def collect(request: Request[Any, Any, Any]) -> Response[str]:
        # What was shown is what is removed: more may be unwanted by now, and nobody has looked at that.
        names = tuple((await read_form(request)).get("names", "").split())
        done = await site.operations.weights.collect(names) if names else ()
        site.live.refresh()
        return site.still(request, "collected.html", "What was removed", rows=collected_rows(done))

    return [weights, ask, collect]
