"""Who may look at pages: on the client port an admin who has logged in; on the admin listener whoever reaches it.

A form must carry the token of the session that it was made for. A page of another site can have a browser send a
form, cookies and all, and cannot know that token.
"""

import hmac
import secrets
from collections.abc import Callable
from typing import Any

from litestar import Request
from litestar.handlers import BaseRouteHandler

from llmgw.core.errors import LlmgwError
from llmgw.ui.refusal import Refusal
from llmgw.ui.session import Connection, FindSession, Session

MOST_OPEN_FORM_BYTES = 16 * 1024
"""Of a form that anybody may send; the time to read one grows with the square of its fields."""
MOST_FORM_BYTES = 256 * 1024
"""Of a form of an admin; the largest names all weights that nobody wants."""

Guard = Callable[[Connection, BaseRouteHandler], None]


class LoginNeeded(LlmgwError):
    """There is no session; the page that was asked for is behind a login."""

    code = "login_needed"


def anyone() -> FindSession:
    """Let everyone in: the admin listener asks for no login."""
    session = Session(user=None, is_admin=True, form_token=secrets.token_urlsafe(16))
    return lambda connection: session


def admin_guard(find_session: FindSession) -> Guard:
    """Make a guard that lets admins in, sends all others to the login, and keeps the session for handlers."""

    def guard(connection: Connection, _handler: BaseRouteHandler) -> None:
        session = find_session(connection)
        if session is None:
            raise LoginNeeded("log in first")
        if not session.is_admin:
            raise Refusal(
                403,
                "not_an_admin",
                f"these pages are for admins, and {session.user} is none; an admin can change that",
            )
        connection.state.session = session
        connection.state.may_look = lambda: (now := find_session(connection)) is not None and now.is_admin

    return guard


def user_guard(find_session: FindSession) -> Guard:
    """Make a guard that lets in whoever has logged in, admin or not, and keeps the session for handlers."""

    def guard(connection: Connection, _handler: BaseRouteHandler) -> None:
        session = find_session(connection)
        if session is None:
            raise LoginNeeded("log in first")
        connection.state.session = session

    return guard


def session_of(connection: Connection) -> Session:
    """Give the session that the guard found."""
    session: Session = connection.state.session
    return session


def may_look_of(connection: Connection) -> Callable[[], bool]:
    """Give what tells whether whoever was let in would still be; a stream outlives many sessions."""
    may_look: Callable[[], bool] = connection.state.may_look
    return may_look


async def read_form(request: Request[Any, Any, Any]) -> dict[str, str]:
    """Read what a form of this session says; of a field that is there twice, the last.

    Raises:
        Refusal: it does not carry the session's token.
    """
    form = {str(key): str(value) for key, value in (await request.form()).multi_items()}
    given, wanted = form.pop("token", ""), session_of(request).form_token
    if not hmac.compare_digest(given.encode(), wanted.encode()):
        raise Refusal(
            403,
            "forged_form",
            "this form was not made for your session, or the server was started anew since; go back, load the page "
            "again and press the button there",
        )
    return form
