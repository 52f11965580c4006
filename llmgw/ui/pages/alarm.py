"""The alarm: most of the fleet is silent, and somebody must say whether that is for good."""

from typing import Any

from litestar import Request, Response, get, post
from litestar.handlers import HTTPRouteHandler
from litestar.response import Redirect

from llmgw.core.fleet.silence import alarm_text
from llmgw.ui.pages.door import read_form
from llmgw.ui.pages.site import Site


def routes(site: Site) -> list[HTTPRouteHandler]:
    """Make the handlers."""

    @get("/alarm")
    async def alarm(request: Request[Any, Any, Any]) -> Response[str]:
        found, back = site.operations.status().alarm, site.rendering.url("")
        if found is None:
            return site.still(request, "calm.html", "There is no alarm", back=back)
        return site.still(
            request,
            "confirm.html",
            "Are these nodes gone for good?",
            text=f"{alarm_text(found)}. If they only cannot be reached, their engines may well go on serving: wait, or "
            "mend the network. If you say that they are gone, their replicas are placed on the nodes that are left.",
            names=found.nodes,
            path=site.rendering.url("alarm", "clear"),
            verb="They are gone",
            back=back,
        )

    @post("/alarm/clear")
    async def clear(request: Request[Any, Any, Any]) -> Redirect:
        await read_form(request)
        site.operations.upkeep.clear_alarm()
        return site.see("")

    return [alarm, clear]
