"""Refusals as HTTP."""

import json

from llmgw.core.routing.openai import Refused
from llmgw.router.errors import internal_error, refusal_answer

WAIT = Refused(
    status=503, code="model_not_ready", message='loading "it"', type="server_error", retry_after_s=1.2
)


def test_a_refusal_is_a_whole_answer_in_the_usual_shape() -> None:
    answer = refusal_answer(WAIT, b"x-request-id: r\r\n", keep_alive=True)

    head, body = answer.split(b"\r\n\r\n")
    assert head.split(b"\r\n") == [
        b"HTTP/1.1 503 Service Unavailable",
        b"content-type: application/json",
        b"retry-after: 2",
        b"retry-after-ms: 1200",
        b"x-request-id: r",
        b"content-length: %d" % len(body),
    ]
    assert json.loads(body) == {
        "error": {"message": 'loading "it"', "type": "server_error", "param": None, "code": "model_not_ready"}
    }


def test_a_refusal_says_when_the_connection_ends_with_it() -> None:
    assert b"\r\nconnection: close\r\n" in refusal_answer(WAIT, b"", keep_alive=False)


def test_an_internal_error_shows_an_id_and_nothing_else() -> None:
    refused = internal_error("req-7")

    assert refused.status == 500
    assert "req-7" in refused.message
