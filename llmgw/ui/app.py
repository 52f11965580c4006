"""The two applications: on the admin listener without login, on the client port for admins; API and pages on each."""

from collections.abc import Callable
from typing import Any

from litestar import Litestar, Request, Response
from litestar.datastructures import ResponseHeader
from litestar.exceptions import HTTPException

from llmgw.core.errors import LlmgwError
from llmgw.ui.api import errors as api_errors
from llmgw.ui.api import health
from llmgw.ui.api.doors import FindKey, admin_key_guard, refuse_other_sites
from llmgw.ui.api.operations import Operations
from llmgw.ui.api.routes import MOST_BODY_BYTES, api_router
from llmgw.ui.pages.account import account_router
from llmgw.ui.pages.door import anyone
from llmgw.ui.pages.errors import PageErrors
from llmgw.ui.pages.login import login_routers
from llmgw.ui.pages.routes import Pages, page_routers
from llmgw.ui.session import cookie_session

ADMIN_PREFIX = "/admin"
"""Where the pages are on the client port."""


def admin_app(operations: Operations, *, pages: Pages | None = None, debug: bool = False) -> Litestar:
    """Make the application of the admin listener: pages, /api/v1 and /health, asking nobody for a key.

    Args:
        pages: what is shared with the other application; made here when None.
    """
    site = (pages or Pages(operations)).site("")
    find_session = anyone()
    errors = PageErrors(site, find_session)
    routes = [*health.routes(), api_router(operations), *page_routers(site, errors, find_session)]
    return _app(routes, errors, before_request=refuse_other_sites, debug=debug)


def client_app(
    operations: Operations,
    *,
    find_admin_key: FindKey,
    pages: Pages | None = None,
) -> Litestar:
    """Make the application that the client port hands everything to that is not below /v1.

    Args:
        find_admin_key: finds the record of a presented key, or says why it opens no door.
        pages: what is shared with the other application; made here when None.
    """
    site = (pages or Pages(operations)).site(ADMIN_PREFIX)
    people = operations.people
    find_session = cookie_session(people)
    errors = PageErrors(site, find_session)
    api = api_router(operations, guards=[admin_key_guard(find_admin_key, find_session)])
    own = [
        *login_routers(site, errors, people, find_session),
        account_router(site, errors, people, find_session),
    ]
    return _app([api, *own, *page_routers(site, errors, find_session)], errors)


def _app(
    routes: list[Any],
    pages: PageErrors,
    *,
    before_request: Callable[[Any], None] | None = None,
    debug: bool = False,
) -> Litestar:
    return Litestar(
        route_handlers=routes,
        before_request=before_request,
        exception_handlers={
            LlmgwError: _either(pages.on_error, api_errors.on_error),
            HTTPException: _either(pages.on_http_error, api_errors.on_http_error),
            Exception: _either(pages.on_fault, api_errors.on_fault),
        },
        response_headers=[
            ResponseHeader(name="cache-control", value="no-store"),
            ResponseHeader(name="x-content-type-options", value="nosniff"),
        ],
        request_max_body_size=MOST_BODY_BYTES,
        openapi_config=None,
        logging_config=None,
        debug=debug,
    )


def _either(page: Callable[..., Response[Any]], api: Callable[..., Response[Any]]) -> Callable[..., Any]:
    """Answer people with a page, and programs in the one shape of the API."""

    def answer(request: Request[Any, Any, Any], error: Any) -> Response[Any]:
        return (page if _is_from_a_person(request) else api)(request, error)

    return answer


def _is_from_a_person(request: Request[Any, Any, Any]) -> bool:
    below_api = request.url.path == "/api" or request.url.path.startswith("/api/")
    return not below_api and "text/html" in request.headers.get("accept", "")
