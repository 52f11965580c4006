"""The cluster page: the whole fleet at a glance."""

from typing import Any

from litestar import Request, Response, get
from litestar.handlers import HTTPRouteHandler

from llmgw.ui.api.operations import Operations
from llmgw.ui.pages.site import Site
from llmgw.ui.pages.statuses import status_of
from llmgw.ui.picture import Fragment, Shown, unless
from llmgw.ui.present.cluster import cluster_view


def look(operations: Operations, _name: str) -> Shown:
    """Look at the fleet."""
    clock, catalog, fleet = operations.clock, operations.catalog(), operations.fleet()
    status, models = status_of(operations)
    view = cluster_view(
        catalog, fleet, status, models, orders=operations.upkeep.orders, now=clock.now(), at=clock.at()
    )
    return Shown(
        title="Cluster",
        parts=(
            Fragment("notices", "parts/notices.html", view.notices),
            Fragment("figures", "parts/figures.html", view.figures),
            Fragment("no-nodes", "parts/empty.html", unless(view.nodes, "No node has registered yet.")),
            Fragment("no-models", "parts/empty.html", unless(view.models, "The catalog is empty.")),
            Fragment("no-replicas", "parts/empty.html", unless(view.replicas, "Nothing runs.")),
            Fragment("no-fabrics", "parts/empty.html", unless(view.fabrics, "No node names a fabric.")),
        ),
        lists={
            "node-rows": tuple(Fragment(f"node:{row.id}", "parts/node_row.html", row) for row in view.nodes),
            "model-rows": tuple(
                Fragment(f"model:{row.name}", "parts/model_row.html", row) for row in view.models
            ),
            "replica-rows": tuple(
                Fragment(f"replica:{row.key}", "parts/replica_row.html", row) for row in view.replicas
            ),
            "fabric-cards": tuple(
                Fragment(f"fabric:{card.name}", "parts/fabric_card.html", card) for card in view.fabrics
            ),
        },
    )


def routes(site: Site) -> list[HTTPRouteHandler]:
    """Make the handlers."""

    @get("/")
    async def cluster(request: Request[Any, Any, Any]) -> Response[str]:
        return await site.page(request, "cluster.html", "cluster")

    return [cluster]
