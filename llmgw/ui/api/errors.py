"""Errors of the admin API, all in one shape: `{"error": {"code", "message", "problems"}}`."""

import logging
import secrets
from collections.abc import Sequence
from typing import Any

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException

from llmgw.core.errors import BadInput, LlmgwError, Problem
from llmgw.ui.refusal import Refusal

_log = logging.getLogger(__name__)

STATUS_OF = {"bad_input": 400, "not_found": 404, "conflict": 409, "unreachable": 502, "store": 503}
"""HTTP statuses of the core's errors; every other one is a fault of the server."""

_CODE_OF = {404: "unknown_url", 405: "method_not_allowed", 413: "too_large"}


class ErrorDetail(msgspec.Struct, frozen=True, kw_only=True):
    """What went wrong.

    Attributes:
        code: a word for programs.
        problems: each thing that is wrong with what was given, with its place.
    """

    code: str
    message: str
    problems: tuple[Problem, ...] = ()


class ErrorBody(msgspec.Struct, frozen=True):
    """The body of every answer that is an error."""

    error: ErrorDetail


def answer(
    status: int,
    code: str,
    message: str,
    problems: Sequence[Problem] = (),
    headers: dict[str, str] | None = None,
) -> Response[ErrorBody]:
    """Make an answer in the one shape."""
    body = ErrorBody(ErrorDetail(code=code, message=message, problems=tuple(problems)))
    return Response(body, status_code=status, headers={"cache-control": "no-store"} | (headers or {}))


def on_error(request: Request[Any, Any, Any], error: LlmgwError) -> Response[ErrorBody]:
    """Answer with an error of ours; its message is meant to be read."""
    if isinstance(error, Refusal):
        headers = {"www-authenticate": "Bearer"} if error.status == 401 else None
        return answer(error.status, error.code, str(error), headers=headers)
    status = STATUS_OF.get(error.code)
    if status is None:
        return on_fault(request, error)
    problems = error.problems if isinstance(error, BadInput) else ()
    return answer(status, error.code, str(error), problems)


def on_http_error(request: Request[Any, Any, Any], error: HTTPException) -> Response[ErrorBody]:
    """Answer with an error that the framework found, such as a URL that nobody serves."""
    status, path = error.status_code, request.url.path
    if status >= 500:
        return on_fault(request, error)
    messages = {
        404: f"nothing is served at {path}; the admin API is below /api/v1 (such as /api/v1/status), "
        "inference below /v1 on the client port",
        405: f"{path} does not take {request.method}",
    }
    message = messages.get(status, error.detail)
    return answer(status, _CODE_OF.get(status, "bad_request"), message, headers=error.headers)


def on_fault(request: Request[Any, Any, Any], error: Exception) -> Response[ErrorBody]:
    """Answer a fault of ours with an id only; the detail goes to the log under the same id."""
    fault_id = log_fault(request, error)
    message = f"internal error {fault_id}; the server's log has the detail under this id"
    return answer(500, "internal", message, headers={"x-error-id": fault_id})


def log_fault(request: Request[Any, Any, Any], error: Exception) -> str:
    """Log a fault of ours, and give the id under which it is found there."""
    fault_id = secrets.token_hex(6)
    _log.error("internal error %s at %s %s", fault_id, request.method, request.url.path, exc_info=error)
    return fault_id
