"""GET /replicas: engine processes of replicas, as last observed."""

from litestar import get
from litestar.handlers import HTTPRouteHandler

from llmgw.ui.api.operations import Operations
from llmgw.ui.present.replicas import ReplicaView, replica_views


def routes(operations: Operations) -> list[HTTPRouteHandler]:
    """Make the handlers."""

    @get("/replicas")
    async def replicas() -> tuple[ReplicaView, ...]:
        clock = operations.clock
        return replica_views(operations.catalog(), operations.fleet(), now=clock.now(), at=clock.at())

    return [replicas]
