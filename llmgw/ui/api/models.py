"""GET /models: models of the catalog and how they fare."""

from litestar import get
from litestar.handlers import HTTPRouteHandler

from llmgw.ui.api.operations import Operations
from llmgw.ui.present.models import ModelView, model_views


def routes(operations: Operations) -> list[HTTPRouteHandler]:
    """Make the handlers."""

    @get("/models")
    async def models() -> tuple[ModelView, ...]:
        clock, hold = operations.clock, operations.status().hold
        return model_views(
            operations.catalog(), operations.fleet(), hold=hold, now=clock.now(), at=clock.at()
        )

    return [models]
