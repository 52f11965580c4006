"""Refusals as HTTP: the header fields and the bytes of an answer that the router gives itself."""

import math
from http import HTTPStatus

from llmgw.core.routing.openai import Refused, error_body

BACK_AFTER_S = 5.0
"""When to ask again after the server ended: a restarted one knows its engines again by then."""
REASONS = {status.value: status.phrase.encode() for status in HTTPStatus}


def status_line(status: int) -> bytes:
    """Begin an answer: `HTTP/1.1 404 Not Found` and its line end."""
    return b"HTTP/1.1 %d %b\r\n" % (status, REASONS.get(status, b""))


def refusal_headers(refused: Refused) -> list[tuple[bytes, bytes]]:
    """List the header fields that a refusal carries beside its length and its request id."""
    headers = [(b"content-type", b"application/json")]
    if refused.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if refused.retry_after_s is not None:
        # Whole seconds are the standard; client libraries prefer the finer field where they know it.
        headers.append((b"retry-after", b"%d" % math.ceil(refused.retry_after_s)))
        headers.append((b"retry-after-ms", b"%d" % round(refused.retry_after_s * 1000)))
    return headers


def refusal_answer(refused: Refused, stamps: bytes, *, keep_alive: bool) -> bytes:
    """Write a refusal as a whole HTTP answer.

    Args:
        stamps: header lines that every answer to this request carries, each with its line end.
        keep_alive: whether the connection serves another request after it.
    """
    body = error_body(refused)
    lines = [b"%b: %b\r\n" % field for field in refusal_headers(refused)]
    if not keep_alive:
        lines.append(b"connection: close\r\n")
    head = b"%b%b%bcontent-length: %d\r\n\r\n" % (
        status_line(refused.status),
        b"".join(lines),
        stamps,
        len(body),
    )
    return head + body


def internal_error(request_id: str) -> Refused:
    """Say that something broke, without saying what: the log has it under the request id."""
    message = f"internal error; the operator finds it in the server's log under request {request_id}"
    return Refused(status=500, type="server_error", code="internal", message=message)


def shutting_down(request_id: str) -> Refused:
    """Say that the server ends before this request is answered to its end."""
    message = (
        f"the server is shutting down, and request {request_id} was not done within the time that it gives to those "
        "under way; ask again"
    )
    return Refused(
        status=503,
        type="server_error",
        code="server_shutting_down",
        message=message,
        retry_after_s=BACK_AFTER_S,
    )
