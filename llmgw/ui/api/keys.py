"""GET /keys, POST /keys, POST /keys/{id}/revoke: API keys."""

from datetime import datetime, timedelta
from typing import Any

import msgspec
from litestar import Request, get, post
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath

from llmgw.core.accounts.access import Scope
from llmgw.core.errors import BadInput, Problem
from llmgw.ui.api.bodies import read_body
from llmgw.ui.api.operations import Operations
from llmgw.ui.present.keys import KeyView, NewKeyView, key_view, new_key_view

LONGEST_S = 100 * 366 * 86400.0


class KeyRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A key to make.

    Attributes:
        name: whose it is or what it is for.
        scope: "inference" or "admin".
        models: model names it may ask for; None allows all.
        expires_in_s: seconds until it expires; None lets it live.
    """

    name: str
    scope: str = Scope.INFERENCE
    models: tuple[str, ...] | None = None
    expires_in_s: float | None = None


def routes(operations: Operations) -> list[HTTPRouteHandler]:
    """Make the handlers."""

    @get("/keys")
    async def keys() -> tuple[KeyView, ...]:
        at = operations.clock.at()
        records = operations.keys()
        return tuple(key_view(record, at) for record in records)

    @post("/keys", status_code=201)
    async def create_key(request: Request[Any, Any, Any]) -> NewKeyView:
        body = await read_body(request, KeyRequest)
        at = operations.clock.at()
        made = await operations.create_key(
            body.name, scope=_scope(body), models=body.models, expires_at=_expiry(body, at)
        )
        return new_key_view(made.key, made.record, at)

    @post("/keys/{key_id:int}/revoke", status_code=200)
    async def revoke_key(key_id: FromPath[int]) -> KeyView:
        return key_view(await operations.revoke_key(key_id), operations.clock.at())

    return [keys, create_key, revoke_key]


def _scope(body: KeyRequest) -> Scope:
    if body.scope not in list(Scope):
        found = f"wanted {' or '.join(Scope)}, found {body.scope!r}"
        raise BadInput("the key cannot be made", [Problem(("scope",), found)])
    return Scope(body.scope)


def _expiry(body: KeyRequest, at: datetime) -> datetime | None:
    if body.expires_in_s is None:
        return None
    if not 0 < body.expires_in_s <= LONGEST_S:
        found = f"wanted more than 0 and at most 100 years in seconds, found {body.expires_in_s:g}"
        raise BadInput("the key cannot be made", [Problem(("expires_in_s",), found)])
    return at + timedelta(seconds=body.expires_in_s)
