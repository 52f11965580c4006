"""The part of OpenAI's protocol that the router reads and writes itself: a request's model, errors, model lists."""

from collections.abc import Iterable
from typing import Any

import msgspec

from llmgw.core.routing.table import ModelRoute

OWNER = "llmgw"
_SHOWN_CHARACTERS = 100
_JSON_NAMES = {
    dict: "an object",
    list: "an array",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    type(None): "null",
}


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """Why a request is not served, in the words of OpenAI's error object.

    Attributes:
        status: the HTTP status that says so.
        type: the family of the error, as client libraries know it.
        param: the field of the body that is at fault; None when none is.
        retry_after_s: when asking again may help, seconds; None when it will not.
    """

    status: int
    message: str
    code: str
    type: str = "invalid_request_error"
    param: str | None = None
    retry_after_s: float | None = None


class Asked(msgspec.Struct, frozen=True):
    """What of a request's body the router needs; all else is the engine's business."""

    model: str
    stream: bool


class _Body(msgspec.Struct):
    model: Any = None
    stream: Any = None


_decode = msgspec.json.Decoder(_Body).decode


def read_request(body: bytes | bytearray) -> Asked | Refused:
    """Read the model that a body asks for and whether it wants a stream; whatever else stands in it is not looked at.

    Returns:
        Asked, or Refused when the body is not a JSON object that names a model.
    """
    try:
        read = _decode(body)
    except msgspec.ValidationError:
        return _bad_body("is JSON but not an object")
    except RecursionError:
        return _bad_body("is nested too deeply to be read")
    except msgspec.DecodeError as error:
        why = f"is no complete and valid JSON: {error}; {len(body)} bytes of it came"
        return _bad_body(why if body else "is empty")
    if not isinstance(read.model, str) or not read.model:
        return _bad_model(read.model)
    return Asked(read.model, read.stream is True)


def _bad_body(found: str) -> Refused:
    message = f'the request body {found}; send a JSON object such as {{"model": "NAME", ...}}'
    return Refused(status=400, code="invalid_body", message=message)


def _bad_model(found: object) -> Refused:
    what = "is missing" if found is None else f"is {shown(found)}"
    message = f"'model' {what}, wanted the name of a model; GET /v1/models lists the names"
    return Refused(status=400, code="missing_model", param="model", message=message)


def shown(value: object) -> str:
    """Show what a client sent, cut to a length that fits into a message; of what is no text, what JSON calls it."""
    # A name is cut before it is shown: one of many megabytes must not be copied into an answer.
    text = repr(value[: _SHOWN_CHARACTERS + 1]) if isinstance(value, str) else _JSON_NAMES[type(value)]
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


def error_body(refused: Refused) -> bytes:
    """Write the error object that every OpenAI client library reads."""
    return msgspec.json.encode(
        {
            "error": {
                "message": refused.message,
                "type": refused.type,
                "param": refused.param,
                "code": refused.code,
            }
        }
    )


def error_event(refused: Refused) -> bytes:
    """Write the error as one event of a stream that has begun already."""
    return b"data: %b\n\n" % error_body(refused)


def model_object(route: ModelRoute) -> dict[str, str | int]:
    """Describe one model as `GET /v1/models/{id}` answers it."""
    return {"id": route.name, "object": "model", "created": route.created_s, "owned_by": OWNER}


def model_list(routes: Iterable[ModelRoute]) -> dict[str, object]:
    """Describe models as `GET /v1/models` answers them."""
    return {"object": "list", "data": [model_object(route) for route in routes]}
