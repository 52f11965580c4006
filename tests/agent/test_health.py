"""One question to an engine over HTTP."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.agent.health import ask, parse_head


@pytest.mark.parametrize(
    ("head", "read"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n", (200, 15)),
        (b"HTTP/1.0 503\r\ncontent-length:3\r\n\r\n", (503, 3)),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", (200, 65536)),
        (b"SSH-2.0-OpenSSH\r\n\r\n", (None, 0)),
        (b"HTTP/1.1 abc\r\n\r\n", (None, 0)),
    ],
)
def test_the_head_of_an_answer_gives_status_and_length(head: bytes, read: tuple[int | None, int]) -> None:
    assert parse_head(head) == read


@given(head=st.binary(max_size=300))
def test_no_head_raises(head: bytes) -> None:
    status, length = parse_head(head)

    assert status is None or 0 <= status <= 999
    assert 0 <= length <= 65536


async def answered(data: bytes, *, ends: bool = True) -> tuple[int | None, bytes]:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(data)
        if not ends:
            await reader.read()
        writer.close()
        closed.set()

    closed = asyncio.Event()
    async with await asyncio.start_server(talk, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        heard = await ask("127.0.0.1", port, "/health", within_s=0.5)
        await closed.wait()
        return heard


async def test_status_and_body_come_back() -> None:
    assert await answered(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok") == (200, b"ok")


@pytest.mark.parametrize("data", [b"", b"HTTP/1.1 200 OK\r\n", b"x" * 100_000])
async def test_what_is_no_answer_is_no_status(data: bytes) -> None:
    assert await answered(data) == (None, b"")


async def test_an_engine_that_keeps_silent_is_given_up() -> None:
    assert await answered(b"", ends=False) == (None, b"")


async def test_a_port_that_nobody_listens_on_is_no_status() -> None:
    assert await ask("127.0.0.1", 1, "/health", within_s=1.0) == (None, b"")
