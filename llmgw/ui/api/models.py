"""GET /models, POST /models/{name}/roll: models of the catalog and how they fare."""

from typing import Any

import msgspec
from litestar import Request, get, post
from litestar.handlers import HTTPRouteHandler

from llmgw.ui.api.bodies import read_body
from llmgw.ui.api.named import named
from llmgw.ui.api.operations import Operations
from llmgw.ui.present.models import ModelView, RollView, model_views, roll_view


class RollRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What to replace.

    Attributes:
        all: every replica, and not only those that are stale.
    """

    all: bool = False


def routes(operations: Operations) -> list[HTTPRouteHandler]:
    """Make the handlers."""

    @get("/models")
    async def models() -> tuple[ModelView, ...]:
        clock, hold = operations.clock, operations.status().hold
        return model_views(
            operations.catalog(),
            operations.fleet(),
            hold=hold,
            now=clock.now(),
            at=clock.at(),
            rolls=operations.upkeep.orders.rolls,
            refused=operations.refused(),
        )

    @post("/models/{target:path}", status_code=200)
    async def roll(request: Request[Any, Any, Any]) -> RollView:
        name = named(request, "/roll")
        body = await read_body(request, RollRequest)
        return roll_view(operations.roll(name, every=body.all))

    return [models, roll]
