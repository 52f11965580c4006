"""GET /replicas, POST /replicas/{id}/restart: engine processes of replicas, as last observed."""

from typing import Any

import msgspec
from litestar import Request, get, post
from litestar.handlers import HTTPRouteHandler

from llmgw.ui.api.named import named
from llmgw.ui.api.operations import Operations
from llmgw.ui.present.replicas import ReplicaView, replica_views


class Restarting(msgspec.Struct, frozen=True, kw_only=True):
    """A replica that is restarted.

    Attributes:
        generation: of the copy that ends; the one that starts has a later one.
    """

    id: str
    generation: str


def routes(operations: Operations) -> list[HTTPRouteHandler]:
    """Make the handlers."""

    @get("/replicas")
    async def replicas() -> tuple[ReplicaView, ...]:
        clock = operations.clock
        return replica_views(
            operations.catalog(),
            operations.fleet(),
            now=clock.now(),
            at=clock.at(),
            orders=operations.upkeep.orders,
        )

    @post("/replicas/{target:path}", status_code=200)
    async def restart(request: Request[Any, Any, Any]) -> Restarting:
        shard = operations.upkeep.restart(named(request, "/restart"))
        return Restarting(id=shard.replica, generation=str(shard.generation))

    return [replicas, restart]
