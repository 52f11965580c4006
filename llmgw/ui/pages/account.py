"""The page of whoever has logged in: who they are, and another password."""

from typing import Any

from litestar import Request, Response, Router, get, post
from litestar.response import Redirect

from llmgw.core.accounts.users import SHORTEST_PASSWORD, LoginRefused
from llmgw.core.errors import BadInput, LlmgwError
from llmgw.ui.pages.door import MOST_OPEN_FORM_BYTES, read_form, session_of, user_guard
from llmgw.ui.pages.errors import PageErrors, own_errors
from llmgw.ui.pages.site import HEADERS, Site
from llmgw.ui.people import People
from llmgw.ui.session import FindSession, ended_cookie


def account_router(site: Site, errors: PageErrors, people: People, find_session: FindSession) -> Router:
    """Make the page, below no prefix."""

    def page(request: Request[Any, Any, Any], problem: str | None = None, status: int = 200) -> Response[str]:
        session = session_of(request)
        html = site.rendering.render(
            "account.html",
            title="Your account",
            kind=None,
            session=session,
            problem=problem,
            shortest=SHORTEST_PASSWORD,
        )
        return site.answer(html, status)

    @get("/account")
    async def account(request: Request[Any, Any, Any]) -> Response[str]:
        return page(request)

    @post("/account/password", status_code=303)
    async def change(request: Request[Any, Any, Any]) -> Response[Any]:
        given = await read_form(request)
        problem = await _changed(request, given, people)
        if problem is not None:
            return page(request, problem, 400)
        answer = Redirect("/login", status_code=303, headers=HEADERS)
        answer.cookies.append(ended_cookie(request))
        return answer

    own: Any = own_errors(errors)
    return Router(
        "/",
        route_handlers=[account, change],
        guards=[user_guard(find_session)],
        exception_handlers=own,
        request_max_body_size=MOST_OPEN_FORM_BYTES,
    )


async def _changed(request: Request[Any, Any, Any], given: dict[str, str], people: People) -> str | None:
    """Change the password of whoever asks; returns why it was not."""
    name, password = session_of(request).user or "", given.get("password", "")
    if password != given.get("again", ""):
        return "The two new passwords differ."
    # Proven like a login, and counted like one: somebody may sit at a browser that was left open.
    proven = await people.log_in(
        name, given.get("present", ""), request.client.host if request.client else "?"
    )
    if isinstance(proven, LoginRefused):
        return f"Your present password was not taken: {proven.reason}."
    try:
        await people.change(name, password=password)
    except LlmgwError as error:
        problems = error.problems if isinstance(error, BadInput) else ()
        return "; ".join(problem.message for problem in problems) or str(error)
    return None
