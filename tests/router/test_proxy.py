"""What passes between client and engine, without sockets: header fields, framing, and every way of cutting a stream."""

import pytest
from fakes.byte_sink import ByteSink
from hypothesis import given
from hypothesis import strategies as st

from llmgw.core.routing.openai import Refused
from llmgw.router.proxy import (
    Header,
    Relay,
    RequestHead,
    ResponseFields,
    ResponseHead,
    request_head,
)

REFUSED = Refused(status=502, code="upstream_failed", message="gone")
SSE = [(b"Content-Type", b"text/event-stream"), (b"Transfer-Encoding", b"chunked")]
STREAMS = [
    b'data: {"a": "\xc3\xbc"}\n\ndata: [DONE]\n\n',
    b'data:{"a": 1}\r\n\r\nevent: x\r\ndata: [DONE]\r\n\r\n',
    b'data: {"a": 1}\r\rdata: [DONE]\r\r',
    'data: {"a": "\u2028\u2029\u0085\x0b\x0c [DONE]"}\n\n: ping\n\ndata: [DONE]'.encode(),
    b"data: " + b"x" * 300 + b"\n\n\n\ndata: [DONE]\n\n",
]


def sent(data: bytes) -> tuple[bytes, bytes]:
    """Split an answer into its head and the body inside its chunks."""
    head, _, framed = data.partition(b"\r\n\r\n")
    body = b""
    while framed:
        size, _, framed = framed.partition(b"\r\n")
        length = int(size, 16)
        body += framed[:length]
        assert framed[length : length + 2] == b"\r\n"
        framed = framed[length + 2 :]
    return head, body


def answer(status: int, headers: list[Header]) -> ResponseHead:
    length = next((value for name, value in headers if name.lower() == b"content-length"), None)
    fields = ResponseFields([header for header in headers if header[0].lower() != b"content-length"])
    return ResponseHead(status, fields, length)


def relay(sink: ByteSink, head: ResponseHead, *, http_1_0: bool = False, keep_alive: bool = True) -> Relay:
    return Relay(sink, head, b"x-request-id: r\r\n", http_1_0=http_1_0, keep_alive=keep_alive)


@given(stream=st.sampled_from(STREAMS) | st.binary(min_size=1, max_size=400), data=st.data())
def test_a_stream_arrives_byte_for_byte_however_it_is_cut(stream: bytes, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(0, len(stream)), max_size=12)))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    sink = ByteSink()
    passing = relay(sink, answer(200, SSE))

    for piece in pieces:
        passing.pass_on([piece] if piece else [], ended=False)
    passing.pass_on([], ended=True)

    _, body = sent(sink.data)
    assert body == stream


@given(stream=st.sampled_from(STREAMS[:3]), data=st.data())
def test_done_is_seen_however_it_is_cut(stream: bytes, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(1, len(stream) - 1), max_size=12)))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    passing = relay(ByteSink(), answer(200, SSE))

    for piece in pieces:
        passing.pass_on([piece], ended=False)

    assert passing.is_done


def test_one_read_makes_one_write() -> None:
    sink = ByteSink()
    passing = relay(sink, answer(200, SSE))

    passing.pass_on([b"data: 1\n\n", b"data: 2\n\n"], ended=False)
    passing.pass_on([b"data: 3\n\n"], ended=True)

    assert sink.writes == 2


def test_an_answer_with_a_length_keeps_it() -> None:
    sink = ByteSink()
    passing = relay(sink, answer(200, [(b"Content-Length", b"4"), (b"X-A", b"1")]))

    passing.pass_on([b"ab"], ended=False)
    passing.pass_on([b"cd"], ended=True)

    assert sink.data == (b"HTTP/1.1 200 OK\r\nx-a: 1\r\nx-request-id: r\r\ncontent-length: 4\r\n\r\nabcd")
    assert passing.can_follow


@pytest.mark.parametrize("status", [204, 304])
def test_an_answer_without_a_body_is_not_framed(status: int) -> None:
    sink = ByteSink()
    head = answer(status, [])
    passing = relay(sink, head)

    passing.pass_on([], ended=True)

    assert not head.until_close
    assert passing.can_follow
    assert b"transfer-encoding" not in sink.data
    assert sink.data.endswith(b"\r\n\r\n")


def test_a_status_nobody_knows_passes() -> None:
    sink = ByteSink()

    relay(sink, answer(599, [(b"content-length", b"0")])).pass_on([], ended=True)

    assert sink.data.startswith(b"HTTP/1.1 599 \r\n")


def test_an_old_client_gets_a_body_of_unknown_length_until_the_connection_closes() -> None:
    sink = ByteSink()
    passing = relay(sink, answer(200, SSE), http_1_0=True, keep_alive=False)

    passing.pass_on([b"data: 1\n\n"], ended=True)

    assert not passing.can_follow
    assert b"\r\nconnection: close\r\n" in sink.data
    assert sink.data.endswith(b"\r\n\r\ndata: 1\n\n")


@pytest.mark.parametrize(
    ("passed", "gap"),
    [(b"data: 1\n\n", b""), (b"data: 1\r\n\r\n", b""), (b"data: 1", b"\n\n"), (b"data: 1\n", b"\n\n")],
)
def test_an_error_event_stands_on_its_own(passed: bytes, gap: bytes) -> None:
    sink = ByteSink()
    passing = relay(sink, answer(200, SSE))
    passing.pass_on([passed], ended=False)

    told = passing.break_off(REFUSED)

    assert told
    body = sent(sink.data)[1]
    assert body.startswith(passed + gap + b'data: {"error":{"message":"gone"')
    assert sink.data.endswith(b"\r\n0\r\n\r\n")


def test_what_promised_its_length_or_is_no_stream_cannot_be_told_of_an_error() -> None:
    promised = answer(200, [(b"content-type", b"text/event-stream"), (b"content-length", b"9")])
    no_stream = answer(200, [(b"transfer-encoding", b"chunked")])

    for head in (promised, no_stream):
        sink = ByteSink()
        passing = relay(sink, head)
        passing.pass_on([b"12"], ended=False)
        before = sink.data

        assert not passing.break_off(REFUSED)
        assert sink.data == before


def test_fields_for_proxies_are_added_to_streams_only_where_they_are_missing() -> None:
    own = answer(200, [*SSE, (b"Cache-Control", b"no-store")])

    assert own.fields.passing.count(b"cache-control") == 1
    assert b"x-accel-buffering: no\r\n" in own.fields.passing
    assert b"x-accel-buffering" not in answer(200, []).fields.passing


def test_several_connection_fields_count_together() -> None:
    head = RequestHead(
        [
            (b"connection", b"x-a"),
            (b"connection", b"close, X-B"),
            (b"x-a", b"1"),
            (b"x-b", b"2"),
            (b"x-c", b"3"),
        ]
    )
    answered = ResponseFields(
        [(b"Connection", b"x-a"), (b"connection", b"X-B"), (b"X-A", b"1"), (b"x-b", b"2"), (b"X-C", b"3")]
    )

    assert head.passing == b"x-c: 3\r\n"
    assert answered.passing == b"x-c: 3\r\n"


def test_of_a_field_that_may_stand_once_the_first_counts() -> None:
    head = RequestHead([(b"authorization", b"Bearer a"), (b"authorization", b"Bearer b")])

    assert head.authorization == b"Bearer a"
    assert head.passing == b""


@pytest.mark.parametrize("value", [b"a b", b"a\tb", b"", b"x" * 129, "ü".encode()])
def test_a_request_id_that_is_not_fit_for_a_log_is_not_taken(value: bytes) -> None:
    assert RequestHead([(b"x-request-id", value)]).request_id is None


def test_the_head_for_the_engine_says_what_is_asked_of_it() -> None:
    head = request_head(b"/v1/completions?a=1", b"[::1]:80", b"x-a: 1\r\n", b"id-1", 12)

    assert head == (
        b"POST /v1/completions?a=1 HTTP/1.1\r\nhost: [::1]:80\r\nx-a: 1\r\naccept-encoding: identity\r\n"
        b"x-request-id: id-1\r\ncontent-length: 12\r\n\r\n"
    )
