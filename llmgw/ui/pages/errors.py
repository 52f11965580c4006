"""Pages that say what went wrong and where to go from there."""

from typing import Any
from urllib.parse import quote

from litestar import Request, Response
from litestar.exceptions import HTTPException
from litestar.response import Redirect

from llmgw.core.errors import LlmgwError
from llmgw.ui.api.errors import STATUS_OF, log_fault
from llmgw.ui.pages.door import LoginNeeded
from llmgw.ui.pages.site import HEADERS, Site
from llmgw.ui.refusal import Refusal
from llmgw.ui.session import FindSession

_TITLES = {
    400: "That cannot be used",
    401: "Log in first",
    403: "Not allowed",
    404: "Nothing here",
    405: "Not that way",
    409: "Not possible now",
    413: "Too much at once",
    500: "Something broke",
    502: "No answer",
    503: "The database cannot be used",
}

AnyResponse = Response[Any]


def own_errors(errors: "PageErrors") -> dict[type[Exception], Any]:
    """Say which errors of pages are answered with pages, as routers take it."""
    # Litestar copies routers in depth. A bound method would take the whole server along; a function stays what it is.
    return {
        LlmgwError: lambda request, error: errors.on_error(request, error),
        HTTPException: lambda request, error: errors.on_http_error(request, error),
        Exception: lambda request, error: errors.on_fault(request, error),
    }


class PageErrors:
    """Answers errors with pages of one listener; whoever has a session there gets the ways that it opens."""

    def __init__(self, site: Site, find_session: FindSession) -> None:
        self._site = site
        self._find_session = find_session

    def on_error(self, request: Request[Any, Any, Any], error: LlmgwError) -> AnyResponse:
        """Answer with an error of ours; its message is meant to be read."""
        if isinstance(error, LoginNeeded):
            return self._to_login(request)
        if isinstance(error, Refusal):
            return self._page(request, error.status, str(error))
        status = STATUS_OF.get(error.code)
        return self.on_fault(request, error) if status is None else self._page(request, status, str(error))

    def on_http_error(self, request: Request[Any, Any, Any], error: HTTPException) -> AnyResponse:
        """Answer with an error that the framework found."""
        if error.status_code >= 500:
            return self.on_fault(request, error)
        path = request.url.path
        messages = {
            404: f"No page is at {path}. It may have been there for something that is gone now.",
            405: f"{path} cannot be opened like this; buttons on the pages do it.",
        }
        return self._page(request, error.status_code, messages.get(error.status_code, error.detail))

    def on_fault(self, request: Request[Any, Any, Any], error: Exception) -> AnyResponse:
        """Answer a fault of ours with an id only; the detail goes to the log under the same id."""
        fault_id = log_fault(request, error)
        message = "The server met an error of its own. Its log has the detail under the id below."
        return self._page(request, 500, message, fault_id)

    def _to_login(self, request: Request[Any, Any, Any]) -> AnyResponse:
        # A stream of events cannot follow to a form; its page shows that there is something to do.
        if "text/event-stream" in request.headers.get("accept", "") or request.method not in ("GET", "HEAD"):
            return self._page(request, 401, "You are not logged in, or not any more.")
        back = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        return Redirect(f"/login?next={quote(back, safe='/')}", headers=HEADERS, status_code=303)

    def _page(
        self, request: Request[Any, Any, Any], status: int, message: str, fault_id: str | None = None
    ) -> AnyResponse:
        html = self._site.rendering.render(
            "error.html",
            title=_TITLES.get(status, "That did not work"),
            status=status,
            message=message,
            fault_id=fault_id,
            kind=None,
            session=self._find_session(request),
        )
        return self._site.answer(html, status)
