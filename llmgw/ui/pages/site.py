"""What all pages of one listener share: how they are rendered, kept live and sent."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from litestar import MediaType, Request, Response
from litestar.response import Redirect, Stream

from llmgw.core.errors import NotFound
from llmgw.ui.api.operations import Operations
from llmgw.ui.events import Hello, Live, Show
from llmgw.ui.pages.door import may_look_of, session_of
from llmgw.ui.picture import Shown
from llmgw.ui.rendering import Rendering, with_ages
from llmgw.ui.statics import Statics

Look = Callable[[Operations, str], Shown]
"""Looks at what a kind of page shows of the thing of a name; NotFound when there is none."""

HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    # Browsers that are told to send no referrer send no origin with a form either, and are refused for it.
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
}


class Site(msgspec.Struct, frozen=True, kw_only=True):
    """The pages of one listener.

    Attributes:
        looks: how to look at each kind of page that is kept live, by the kind's name.
    """

    operations: Operations
    live: Live
    rendering: Rendering
    statics: Statics
    looks: Mapping[str, Look]

    async def page(
        self, request: Request[Any, Any, Any], template: str, kind: str, name: str = "", **values: Any
    ) -> Response[str]:
        """Answer with a page that is kept live.

        Args:
            name: of the thing that it shows, for kinds that show one of many.
            values: what the frame of the page needs beside its fragments.

        Raises:
            NotFound: there is none of this name.
        """
        path, show = self._path(kind, name), self._show(kind, name)
        picture = await self.live.picture(path, show, self._fragment)
        html = self.rendering.render(
            template,
            part=picture.part,
            rows=picture.rows,
            title=picture.title,
            kind=kind,
            name=name,
            revision=picture.revision,
            session=session_of(request),
            **values,
        )
        return self.answer(html)

    def still(
        self, request: Request[Any, Any, Any], template: str, title: str, **values: Any
    ) -> Response[str]:
        """Answer with a page that is as it was made."""
        session = session_of(request)
        html = self.rendering.render(template, title=title, kind=None, session=session, **values)
        return self.answer(html)

    def see(self, *steps: str) -> Redirect:
        """Answer a form by sending the browser to a page, which shows what the form did; loading it again is safe."""
        self.live.refresh()
        return Redirect(self.rendering.url(*steps), status_code=303, headers=HEADERS)

    def answer(self, html: str, status: int = 200) -> Response[str]:
        """Answer with HTML."""
        filled = with_ages(html, self.operations.clock.at())
        return Response(filled, status_code=status, media_type=MediaType.HTML, headers=HEADERS)

    def stream(self, request: Request[Any, Any, Any], kind: str, name: str) -> Stream:
        """Answer with the changes of a page, for as long as somebody looks.

        Raises:
            NotFound: no such page is kept live.
        """
        if kind not in self.looks:
            raise NotFound(f"no page is called {kind!r}; live pages are {', '.join(self.looks)}")
        revision = request.headers.get("last-event-id") or request.query_params.get("revision")
        hello = Hello(
            at_s=self.operations.clock.at().timestamp(),
            build=self.statics.build,
            token=session_of(request).form_token,
        )
        path, show = self._path(kind, name), self._show(kind, name)
        events = self.live.stream(
            path, show, self._fragment, revision=revision, hello=hello, may_look=may_look_of(request)
        )
        return Stream(events, media_type="text/event-stream", headers=HEADERS | {"x-accel-buffering": "no"})

    def _path(self, kind: str, name: str) -> str:
        return f"{self.rendering.prefix}/{kind}/{name}"

    def _show(self, kind: str, name: str) -> Show:
        look = self.looks[kind]
        return lambda: look(self.operations, name)

    def _fragment(self, template: str, id: str, value: Any) -> str:
        return self.rendering.render(template, id=id, v=value)
