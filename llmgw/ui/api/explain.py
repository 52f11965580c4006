"""GET and POST /explain-placement: where a model stands, node by node, in the catalog as it is or as it would be."""

from typing import Any

import msgspec
from litestar import Request, get, post
from litestar.handlers import HTTPRouteHandler

from llmgw.core.errors import BadInput
from llmgw.core.placement.explain import Explanation
from llmgw.ui.api.bodies import read_body
from llmgw.ui.api.operations import Operations


class ExplainRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What to explain.

    Attributes:
        model: its name or an alias.
        catalog: as catalog.yaml has it; counts beside the stored one as if it were applied, and changes nothing.
    """

    model: str
    catalog: dict[str, Any]


def routes(operations: Operations) -> list[HTTPRouteHandler]:
    """Make the handlers."""

    @get("/explain-placement")
    async def explain(request: Request[Any, Any, Any]) -> Explanation:
        model = request.query_params.get("model")
        if not model:
            raise BadInput("name a model, as in /api/v1/explain-placement?model=gemma-270m")
        return operations.explain(model)

    @post("/explain-placement", status_code=200)
    async def explain_catalog(request: Request[Any, Any, Any]) -> Explanation:
        body = await read_body(request, ExplainRequest)
        return operations.explain(body.model, body.catalog)

    return [explain, explain_catalog]
