"""GET /status: the whole at a glance."""

from litestar import get
from litestar.handlers import HTTPRouteHandler

from llmgw.ui.api.operations import Operations
from llmgw.ui.present.status import StatusView, status_view


def routes(operations: Operations) -> list[HTTPRouteHandler]:
    """Make the handlers."""

    @get("/status")
    async def status() -> StatusView:
        own = operations.status()
        return status_view(
            operations.catalog(),
            operations.fleet(),
            version=own.version,
            epoch=own.epoch,
            started_at=own.started_at,
            hold=own.hold,
            alarm=own.alarm,
            absent=own.absent,
            strangers=own.strangers,
            catalog_problem=own.catalog_problem,
            now=operations.clock.now(),
            at=operations.clock.at(),
        )

    return [status]
