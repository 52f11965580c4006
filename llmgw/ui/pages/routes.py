"""All pages of one listener, below its prefix, with the files that they load."""

from typing import Any

from litestar import Request, Response, Router, get
from litestar.exceptions import NotFoundException
from litestar.params import FromPath
from litestar.response import Stream

from llmgw.runtime.resources import packaged
from llmgw.ui.api.operations import Operations
from llmgw.ui.events import Live
from llmgw.ui.pages import alarm, cluster, logs, models, node, replicas, weights
from llmgw.ui.pages.door import MOST_FORM_BYTES, admin_guard
from llmgw.ui.pages.errors import PageErrors, own_errors
from llmgw.ui.pages.site import HEADERS, Look, Site
from llmgw.ui.rendering import Rendering
from llmgw.ui.session import FindSession
from llmgw.ui.statics import Statics

LOOKS: dict[str, Look] = {
    "cluster": cluster.look,
    "node": node.look,
    "models": models.look,
    "model": models.look_at_one,
    "replicas": replicas.look,
    "weights": weights.look,
}
_PAGES = (cluster, alarm, node, logs, models, replicas, weights)


class Pages:
    """The pages as both listeners show them, and what these share."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations
        self._live = Live(operations.clock)
        self._statics = Statics(packaged("ui/static"))

    def site(self, prefix: str) -> Site:
        """Put together what the pages below a prefix share."""
        return Site(
            operations=self._operations,
            live=self._live,
            rendering=Rendering(packaged("ui/templates"), self._statics, prefix=prefix),
            statics=self._statics,
            looks=LOOKS,
        )

    def end(self) -> None:
        """End every live stream, for the server is about to end."""
        self._live.end()


def page_routers(site: Site, errors: PageErrors, find_session: FindSession) -> list[Router]:
    """Make the pages, for those whom the door lets in, and the files, for everybody."""

    @get("/events")
    async def events(request: Request[Any, Any, Any]) -> Stream:
        return site.stream(
            request, request.query_params.get("page", ""), request.query_params.get("name", "")
        )

    @get("/{name:str}")
    async def static(name: FromPath[str]) -> Response[bytes]:
        found = site.statics.find(name)
        if found is None:
            raise NotFoundException
        kept = {"cache-control": "public, max-age=31536000, immutable"}
        return Response(found.content, media_type=found.media_type, headers=HEADERS | kept)

    handlers = [handler for page in _PAGES for handler in page.routes(site)]
    own = own_errors(errors)
    prefix = site.rendering.prefix or "/"
    return [
        Router(
            prefix,
            route_handlers=[*handlers, events],
            guards=[admin_guard(find_session)],
            request_max_body_size=MOST_FORM_BYTES,
            exception_handlers=own,  # type: ignore[arg-type] # Litestar takes one type of error for all
        ),
        Router(f"{site.rendering.prefix}/static", route_handlers=[static]),
    ]
