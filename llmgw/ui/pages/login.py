"""Logging in and out on the client port, and the page on which the first admin is made."""

import math
from typing import Any
from urllib.parse import urlsplit

from litestar import Request, Response, Router, get, post
from litestar.response import Redirect

from llmgw.core.accounts.users import SHORTEST_PASSWORD, LoggedIn
from llmgw.core.errors import BadInput, LlmgwError
from llmgw.ui.pages.door import MOST_OPEN_FORM_BYTES, read_form, user_guard
from llmgw.ui.pages.errors import PageErrors, own_errors
from llmgw.ui.pages.site import HEADERS, Site
from llmgw.ui.people import People
from llmgw.ui.session import (
    SESSION,
    FindSession,
    cookie_of,
    ended_cookie,
    form_cookie,
    read_open_form,
    session_cookie,
)

_SHORT_OF_IT = {"name": "Name", "password": "Password"}


def login_routers(site: Site, errors: PageErrors, people: People, find_session: FindSession) -> list[Router]:
    """Make the pages, below no prefix."""
    own: Any = own_errors(errors)
    handlers = [*_login_handlers(site, people, find_session), *_first_handlers(site, people)]
    return [
        Router(
            "/", route_handlers=handlers, exception_handlers=own, request_max_body_size=MOST_OPEN_FORM_BYTES
        ),
        Router(
            "/",
            route_handlers=[_logout(people)],
            guards=[user_guard(find_session)],
            exception_handlers=own,
            request_max_body_size=MOST_OPEN_FORM_BYTES,
        ),
    ]


def _login_handlers(site: Site, people: People, find_session: FindSession) -> list[Any]:
    def form(request: Request[Any, Any, Any], status: int = 200, **said: Any) -> Response[str]:
        values = {
            "next": "",
            "name": "",
            "problem": None,
            "no_admin": people.first_token() is not None,
        } | said
        return _open_form(site, request, "login.html", "Log in", status, **values)

    @get("/login")
    async def login(request: Request[Any, Any, Any]) -> Response[Any]:
        following = _following(request.query_params.get("next", ""))
        session = find_session(request)
        if session is not None:
            return _onwards(following, is_admin=session.is_admin)
        return form(request, next=following)

    @post("/login", status_code=200)
    async def enter(request: Request[Any, Any, Any]) -> Response[Any]:
        given = await read_open_form(request)
        name, following = given.get("name", ""), _following(given.get("next", ""))
        address = request.client.host if request.client else "?"
        found = await people.log_in(name, given.get("password", ""), address)
        if isinstance(found, LoggedIn):
            return _entered(request, found, following)
        answer = form(request, 429 if found.wait_s else 403, next=following, name=name, problem=found.reason)
        if found.wait_s:
            answer.headers["retry-after"] = str(math.ceil(found.wait_s))
        return answer

    return [login, enter]


def _first_handlers(site: Site, people: People) -> list[Any]:
    def form(request: Request[Any, Any, Any], first: str, status: int = 200, **said: Any) -> Response[str]:
        values = {"first": first, "name": "admin", "problem": None, "shortest": SHORTEST_PASSWORD} | said
        return _open_form(site, request, "first.html", "Make the first admin", status, **values)

    @get("/login/first")
    async def first(request: Request[Any, Any, Any]) -> Response[Any]:
        if people.first_token() is None:
            return Redirect("/login", status_code=303, headers=HEADERS)
        return form(request, request.query_params.get("token", ""))

    @post("/login/first", status_code=200)
    async def create(request: Request[Any, Any, Any]) -> Response[Any]:
        given = await read_open_form(request)
        token, name, password = (given.get(key, "") for key in ("first", "name", "password"))
        if password != given.get("again", ""):
            return form(request, token, 400, name=name, problem="The two passwords differ.")
        try:
            user = await people.create_first(token, name, password)
        except LlmgwError as error:
            return form(request, token, 400, name=name, problem=_said(error))
        return _entered(request, await people.begin(user), "")

    return [first, create]


def _logout(people: People) -> Any:
    @post("/logout", status_code=303)
    async def logout(request: Request[Any, Any, Any]) -> Response[Any]:
        await read_form(request)
        await people.log_out(cookie_of(request, SESSION))
        answer = Redirect("/login", status_code=303, headers=HEADERS)
        answer.cookies.append(ended_cookie(request))
        return answer

    return logout


def _open_form(
    site: Site, request: Request[Any, Any, Any], template: str, title: str, status: int, **values: Any
) -> Response[str]:
    cookie = form_cookie(request)
    html = site.rendering.render(template, title=title, kind=None, session=None, token=cookie.value, **values)
    answer = site.answer(html, status)
    answer.cookies.append(cookie)
    return answer


def _entered(request: Request[Any, Any, Any], found: LoggedIn, following: str) -> Response[Any]:
    answer = _onwards(following, is_admin=found.user.admin)
    answer.cookies.append(session_cookie(request, found.token))
    return answer


def _onwards(following: str, *, is_admin: bool) -> Response[Any]:
    return Redirect(following or ("/admin/" if is_admin else "/account"), status_code=303, headers=HEADERS)


def _following(path: str) -> str:
    """Give back a path of these pages, to go on to after the login; empty for anything else.

    A browser reads //host and /\\host as another site.
    """
    parts = urlsplit(path) if path.isprintable() and "\\" not in path else None
    if parts is None or parts.scheme or parts.netloc or path.startswith("//"):
        return ""
    ours = parts.path in ("/admin", "/account") or parts.path.startswith(("/admin/", "/account/"))
    return path if ours else ""


def _said(error: LlmgwError) -> str:
    problems = error.problems if isinstance(error, BadInput) else ()
    if not problems:
        return str(error)
    said = (
        f"{_SHORT_OF_IT.get(problem.where(), problem.where())}: {problem.message}" for problem in problems
    )
    return "; ".join(said)
