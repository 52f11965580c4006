"""GET /users, POST /users, POST /users/{name}, POST /users/{name}/remove: people who may log in."""

from typing import Any

import msgspec
from litestar import Request, get, post
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath

from llmgw.core.errors import BadInput
from llmgw.ui.api.bodies import read_body
from llmgw.ui.api.operations import Operations
from llmgw.ui.present.users import UserView, user_view


class UserRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A user to make."""

    name: str
    password: str
    admin: bool = False


class UserChange(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be different of a user; None stays."""

    password: str | None = None
    admin: bool | None = None


def routes(operations: Operations) -> list[HTTPRouteHandler]:
    """Make the handlers."""

    @get("/users")
    async def users() -> tuple[UserView, ...]:
        return tuple(user_view(user) for user in operations.people.users())

    @post("/users", status_code=201)
    async def create(request: Request[Any, Any, Any]) -> UserView:
        body = await read_body(request, UserRequest)
        return user_view(await operations.people.create(body.name, body.password, admin=body.admin))

    @post("/users/{name:str}", status_code=200)
    async def change(name: FromPath[str], request: Request[Any, Any, Any]) -> UserView:
        body = await read_body(request, UserChange)
        if body == UserChange():
            raise BadInput("nothing to change: give password or admin")
        return user_view(await operations.people.change(name, admin=body.admin, password=body.password))

    @post("/users/{name:str}/remove", status_code=200)
    async def remove(name: FromPath[str]) -> UserView:
        return user_view(await operations.people.remove(name))

    return [users, create, change, remove]
