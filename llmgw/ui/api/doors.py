"""Who may come in: an admin key on the client port; on the admin listener anyone but pages of other sites.

The admin listener asks for no login, so whoever reaches it is trusted. A browser on the same machine reaches it too,
and does what any page tells it. Two things keep such pages out: a request that names its Origin must come from this
very address, and a connection over loopback must have been asked for by an address or a plain name, for a page could
otherwise point its own domain name at 127.0.0.1 and become the same origin.
"""

import hmac
import ipaddress
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from litestar import Request
from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler

from llmgw.core.accounts.access import Denied, KeyRecord, Scope
from llmgw.ui.refusal import Refusal
from llmgw.ui.session import FindSession, Session

FindKey = Callable[[bytes | None], KeyRecord | Denied]
TOKEN_HEADER = "x-llmgw-token"


def admin_key_guard(
    find_key: FindKey,
    find_session: FindSession,
) -> Callable[[ASGIConnection[Any, Any, Any, Any], BaseRouteHandler], None]:
    """Make a guard that lets in who sends `Authorization: Bearer KEY` with a key of admin scope, and admins who have
    logged in; what changes something must then carry the token of their forms.
    """

    def guard(connection: ASGIConnection[Any, Any, Any, Any], _handler: BaseRouteHandler) -> None:
        check(connection)
        connection.state.may_look = lambda: _passes(check, connection)

    def check(connection: ASGIConnection[Any, Any, Any, Any]) -> None:
        if "authorization" not in connection.headers and (session := find_session(connection)) is not None:
            _check_session(connection, session)
            return
        found = find_key(_bearer(connection.headers.get("authorization")))
        if isinstance(found, Denied):
            raise Refusal(401, found.code, found.message)
        if found.scope != Scope.ADMIN:
            raise Refusal(
                403,
                "not_an_admin_key",
                f"API key {found.prefix}… is for {found.scope}, and the admin API wants one of scope admin; "
                "an operator makes one with 'llmgw ctl keys create NAME --scope admin'",
            )

    return guard


def may_look_of(connection: ASGIConnection[Any, Any, Any, Any]) -> Callable[[], bool]:
    """Give what tells whether whoever was let in would still be; a stream outlives many keys and sessions."""
    may_look: Callable[[], bool] = getattr(connection.state, "may_look", lambda: True)
    return may_look


def _passes(
    check: Callable[[ASGIConnection[Any, Any, Any, Any]], None],
    connection: ASGIConnection[Any, Any, Any, Any],
) -> bool:
    try:
        check(connection)
    except Refusal:
        return False
    return True


def _check_session(connection: ASGIConnection[Any, Any, Any, Any], session: Session) -> None:
    if not session.is_admin:
        raise Refusal(403, "not_an_admin", f"the admin API is for admins, and {session.user} is none")
    given = connection.headers.get(TOKEN_HEADER, "")
    if connection.scope.get("method") not in ("GET", "HEAD") and not hmac.compare_digest(
        given.encode(), session.form_token.encode()
    ):
        raise Refusal(
            403,
            "forged_form",
            f"a session changes something only with the token of its pages in {TOKEN_HEADER}",
        )


def refuse_other_sites(request: Request[Any, Any, Any]) -> None:
    """Refuse what a page of another site had a browser send."""
    host = request.headers.get("host", "")
    origin = request.headers.get("origin")
    if origin is not None and _netloc(origin) != host.lower():
        raise Refusal(403, "other_site", f"the page {origin} may not use the admin API of {host}")
    server = request.scope.get("server")
    if server is not None and _is_loopback(str(server[0])) and not _is_plain(host):
        raise Refusal(
            403, "other_name", f"the admin listener does not answer to {host}; use its address or localhost"
        )


def _bearer(header: str | None) -> bytes | None:
    if header is None or header[:7].lower() != "bearer ":
        return None
    return header[7:].strip().encode("latin-1", "replace")


def _is_plain(host: str) -> bool:
    """Tell whether a Host header is an address, or a name without dots, which no site on the internet has."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    return "." not in name or _address(name) is not None


def _netloc(origin: str) -> str | None:
    """Read host and port of an origin; None when it is none, which no host equals."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


def _is_loopback(host: str) -> bool:
    address = _address(host)
    # A socket for IPv6 and IPv4 together has ::ffff:127.0.0.1.
    mapped = getattr(address, "ipv4_mapped", None)
    return address is not None and (mapped or address).is_loopback


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
