"""Read the JSON body of a request into a struct, with every problem named."""

from typing import Any, TypeVar

import msgspec
from litestar import Request

from llmgw.core.errors import BadInput
from llmgw.core.shape import read_struct
from llmgw.ui.refusal import Refusal

T = TypeVar("T")


async def read_body(request: Request[Any, Any, Any], kind: type[T]) -> T:
    """Read the body as a `kind`; an empty body counts as an empty object.

    Raises:
        BadInput: it is not JSON, or not of that shape.
        Refusal: it is not said to be JSON.
    """
    content = await request.body()
    # Pages of other sites can have a browser send text or forms anywhere without asking, but not JSON.
    if content and request.content_type[0] != "application/json":
        raise Refusal(
            415, "unsupported_media_type", "send the body as JSON, with content-type application/json"
        )
    try:
        data = msgspec.json.decode(content or b"{}")
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadInput(f"the body is not JSON: {error}") from error
    body, problems = read_struct(data, kind)
    if body is None:
        raise BadInput("the body cannot be used", problems)
    return body
