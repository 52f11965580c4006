"""GET /health: that the process answers."""

from litestar import get
from litestar.handlers import HTTPRouteHandler

from llmgw import __version__


def routes() -> list[HTTPRouteHandler]:
    """Make the handlers."""

    @get("/health")
    async def health() -> dict[str, str]:
        return {"status": "ok", "version": __version__}

    return [health]
