"""Who looks: the cookie of somebody who has logged in on the client port, and the one of the form to log in with."""

import hmac
import secrets
from collections.abc import Callable
from typing import Any

import msgspec
from litestar import Request
from litestar.connection import ASGIConnection
from litestar.datastructures import Cookie

from llmgw.core.accounts.users import LONGEST_LIFE
from llmgw.ui.people import People
from llmgw.ui.refusal import Refusal

Connection = ASGIConnection[Any, Any, Any, Any]

SESSION = "session"
FORM = "form"
"""Before there is a session, a form is proven by a cookie that no other site can have sent along or read."""

_FORM_AGE_S = 3600


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """Who looks.

    Attributes:
        user: their name; None where nobody is asked for it.
        is_admin: may see these pages.
        form_token: what their forms must carry.
    """

    user: str | None
    is_admin: bool
    form_token: str


FindSession = Callable[[Connection], Session | None]
"""Finds the session of a request; None when there is none."""


def cookie_session(people: People) -> FindSession:
    """Make what finds the session of a request by its cookie."""

    def find(connection: Connection) -> Session | None:
        found = people.find(cookie_of(connection, SESSION))
        if found is None:
            return None
        return Session(user=found.user.name, is_admin=found.user.admin, form_token=found.session.csrf)

    return find


def cookie_of(connection: Connection, kind: str) -> str:
    """Give the value of a cookie of this listener; empty when the browser sent none."""
    return connection.cookies.get(_cookie_name(connection, kind), "")


def session_cookie(request: Request[Any, Any, Any], token: str) -> Cookie:
    """Make the cookie of a login; it is read again here alone, and sent by no page of another site."""
    return _cookie(request, SESSION, token, int(LONGEST_LIFE.total_seconds()), "lax")


def ended_cookie(request: Request[Any, Any, Any]) -> Cookie:
    """Make the cookie that takes a login out of the browser."""
    return _cookie(request, SESSION, "", 0, "lax")


def form_cookie(request: Request[Any, Any, Any]) -> Cookie:
    """Make the cookie of a form that is shown to somebody without a session; the form carries its value."""
    known = cookie_of(request, FORM)
    # Two tabs with the form share one, so that each can be sent.
    value = known if len(known) == len(secrets.token_urlsafe(24)) else secrets.token_urlsafe(24)
    return _cookie(request, FORM, value, _FORM_AGE_S, "strict")


async def read_open_form(request: Request[Any, Any, Any]) -> dict[str, str]:
    """Read a form of somebody without a session; of a field that is there twice, the last.

    Raises:
        Refusal: it was not shown to this browser.
    """
    form = {str(key): str(value) for key, value in (await request.form()).multi_items()}
    given, wanted = form.pop("token", ""), cookie_of(request, FORM)
    if not wanted or not hmac.compare_digest(given.encode(), wanted.encode()):
        raise Refusal(
            403,
            "forged_form",
            "this form was not shown to your browser, or too long ago, or the browser takes no cookies from this "
            "address; load the page again and send the form from there",
        )
    return form


def _cookie_name(connection: Connection, kind: str) -> str:
    """Name a cookie after the port it is for: browsers send cookies of a host to all of its ports, and servers beside
    each other would log each other's people out.
    """
    server = connection.scope.get("server")
    return f"llmgw_{kind}_{server[1] if server else 0}"


def _cookie(request: Request[Any, Any, Any], kind: str, value: str, age_s: int, site: Any) -> Cookie:
    return Cookie(
        key=_cookie_name(request, kind),
        value=value,
        path="/",
        max_age=age_s,
        httponly=True,
        samesite=site,
        secure=request.url.scheme == "https",
    )
