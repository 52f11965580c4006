"""GET /explain-placement?model=: where a model stands, node by node."""

from typing import Any

from litestar import Request, get
from litestar.handlers import HTTPRouteHandler

from llmgw.core.errors import BadInput
from llmgw.core.placement.explain import Explanation
from llmgw.ui.api.operations import Operations


def routes(operations: Operations) -> list[HTTPRouteHandler]:
    """Make the handlers."""

    @get("/explain-placement")
    async def explain(request: Request[Any, Any, Any]) -> Explanation:
        model = request.query_params.get("model")
        if not model:
            raise BadInput("name a model, as in /api/v1/explain-placement?model=gemma-270m")
        return operations.explain(model)

    return [explain]
