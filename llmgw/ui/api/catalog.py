"""GET /catalog, POST /apply: what is wanted."""

from typing import Any

import msgspec
from litestar import Request, get, post
from litestar.handlers import HTTPRouteHandler

from llmgw.core.fleet.catalog import Catalog, Change
from llmgw.ui.api.bodies import read_body
from llmgw.ui.api.operations import Operations


class ApplyRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What to apply.

    Attributes:
        catalog: as catalog.yaml has it.
        dry_run: only say what would change.
        prune: remove models that the catalog does not name.
    """

    catalog: dict[str, Any]
    dry_run: bool = False
    prune: bool = False


class Applied(Change, frozen=True, kw_only=True):
    """What changed, or what would, by model name."""

    dry_run: bool


def routes(operations: Operations) -> list[HTTPRouteHandler]:
    """Make the handlers."""

    @get("/catalog")
    async def catalog() -> Catalog:
        return operations.catalog()

    @post("/apply", status_code=200)
    async def apply(request: Request[Any, Any, Any]) -> Applied:
        body = await read_body(request, ApplyRequest)
        change = await operations.apply(body.catalog, dry_run=body.dry_run, prune=body.prune)
        return Applied(dry_run=body.dry_run, **msgspec.structs.asdict(change))

    return [catalog, apply]
