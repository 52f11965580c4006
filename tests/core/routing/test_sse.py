"""What the tail of a stream tells."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.core.routing.sse import START, TAIL_BYTES, may_begin_event, says_done, tail_after


def done(*pieces: bytes) -> bool:
    tail, seen = START, False
    for piece in pieces:
        seen = seen or says_done(tail, piece)
        tail = tail_after(tail, piece)
    return seen


@pytest.mark.parametrize(
    "stream",
    [
        b"data: [DONE]\n\n",
        b"data:[DONE]\n",
        b"data: 1\r\n\r\ndata: [DONE]\r\n\r\n",
        b"data: 1\r\rdata: [DONE]\r",
        b"data: 1\n\ndata: [DONE]\n\n: bye\n\n" + b"x" * 100,
    ],
)
def test_a_whole_line_ends_a_stream_however_it_is_cut(stream: bytes) -> None:
    assert done(stream)
    assert done(*[bytes([byte]) for byte in stream])
    assert all(done(stream[:at], stream[at:]) for at in range(len(stream)))


@pytest.mark.parametrize(
    "stream",
    [
        b'data: {"content": "data: [DONE]"}\n\n',
        b"data: [DONE",
        b"data: [DONE]",
        b"data: [DONE] and more\n\n",
        b": data: [DONE]\n\n",
        b"xdata: [DONE]\n",
        "data: \u2028data: [DONE]\n".encode(),
        b"data: \x0bdata: [DONE]\n",
    ],
)
def test_the_same_characters_inside_a_line_end_nothing_however_they_are_cut(stream: bytes) -> None:
    assert not done(stream)
    assert not done(*[bytes([byte]) for byte in stream])
    assert not any(done(stream[:at], stream[at:]) for at in range(len(stream)))


@given(st.lists(st.binary(max_size=40), max_size=8))
def test_the_tail_is_the_end_of_what_passed(pieces: list[bytes]) -> None:
    tail = START
    for piece in pieces:
        tail = tail_after(tail, piece)

    assert tail == (START + b"".join(pieces))[-TAIL_BYTES:]


@pytest.mark.parametrize(
    ("passed", "stands_alone"),
    [
        (b"", True),
        (b"data: 1\n\n", True),
        (b"data: 1\r\n\r\n", True),
        (b"data: 1\r\r", True),
        (b"data: 1\r\n\n", True),
        (b"data: 1\n", False),
        (b"data: 1\r\n", False),
        (b"data: 1", False),
    ],
)
def test_an_event_may_follow_a_blank_line(passed: bytes, stands_alone: bool) -> None:
    assert may_begin_event(tail_after(START, passed)) is stands_alone
