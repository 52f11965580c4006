"""The two HTTP servers: whoever still waits at the end is told so, and nobody holds up either of them."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from fakes.clock import FakeClock
from fakes.engine import SSE_HEAD, Act, FakeEngine, chunk
from fakes.gateway import endpoint, key_record
from fakes.http_client import KEY, HttpClient, get, post
from fakes.waiting import until

from llmgw.core.accounts.access import digest_of
from llmgw.core.routing.table import ModelRoute, build_table
from llmgw.router.app import Router
from llmgw.router.front import HEAD_S, MOST_HEAD_BYTES
from llmgw.runtime.clock import Clock, SystemClock
from llmgw.server.app import HttpServer, http_server
from llmgw.server.listeners import bind

EVENT = b'data: {"choices": []}\n\n'
STREAM = b'{"model": "gemma", "stream": true}'


async def waiting_app(scope: Any, receive: Any, send: Any) -> None:
    """Answer nothing before the client has left."""
    if scope["type"] == "lifespan":
        return
    while (await receive())["type"] != "http.disconnect":
        pass


async def answering_app(scope: Any, receive: Any, send: Any) -> None:
    """Answer with the path."""
    if scope["type"] == "lifespan":
        return
    body = scope["path"].encode()
    headers = [(b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def deaf_app(scope: Any, receive: Any, send: Any) -> None:
    """Answer nothing, and do not look whether the client has left."""
    if scope["type"] != "lifespan":
        await asyncio.Event().wait()


class Serving:
    """A server that gives requests under way a fifth of a second."""

    def __init__(
        self, engine: FakeEngine, app: Any, *, clock: Clock | None = None, plain: bool = False
    ) -> None:
        self.router = Router(clock or SystemClock(), 1 << 20)
        self.router.set_keys({digest_of(KEY): key_record()})
        self.router.replace_table(build_table([ModelRoute(name="gemma", endpoints=(endpoint(engine),))]))
        protocol = self.router.plain_protocol_class() if plain else self.router.protocol_class()
        self.server: HttpServer = http_server(app, protocol=protocol, drain_s=0.2)
        self._socket = bind("127.0.0.1", 0, "listen.client")
        self.port = self._socket.getsockname()[1]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[HttpClient]:
        task = asyncio.create_task(self.server.serve(sockets=[self._socket]))
        await self.server.up.wait()
        try:
            async with HttpClient(self.port) as client:
                yield client
        finally:
            self.server.should_exit = True
            await asyncio.wait_for(task, 10)
            await self.router.close()
            self._socket.close()


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.message for r in caplog.records if r.levelno >= logging.WARNING]


async def test_a_stream_that_outlasts_the_deadline_gets_an_error_event_with_its_id(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with FakeEngine([SSE_HEAD, chunk(EVENT), Act.HOLD]) as engine:
        serving = Serving(engine, waiting_app)
        async with serving.running() as client:
            await client.send(post(STREAM, headers=("X-Request-Id: mine",)))
            await client.read_head()
            first = await client.read_chunk()
            serving.server.should_exit = True
            last, end = await client.read_chunk(), await client.read_chunk()
            closed = await client.is_closed()
        await until(lambda: engine.open == 0)

    error = json.loads(last.removeprefix(b"data: "))["error"]
    assert (first, end, closed) == (EVENT, b"", True)
    assert (error["code"], error["type"]) == ("server_shutting_down", "server_error")
    assert "request mine" in error["message"]
    assert told(caplog) == [
        "1 connections were still busy after 0.2 s; their clients are told that the server ends"
    ]


async def test_a_request_whose_answer_has_not_begun_at_the_deadline_gets_a_503() -> None:
    async with FakeEngine([Act.HOLD]) as engine:
        serving = Serving(engine, waiting_app)
        async with serving.running() as client:
            await client.send(post())
            await until(lambda: engine.held)
            serving.server.should_exit = True
            answer = await client.read_answer()
            closed = await client.is_closed()

    assert (answer.status, answer.error()["code"]) == (503, "server_shutting_down")
    assert answer.get(b"retry-after") == b"5"
    assert (answer.get(b"x-request-id") or b"").decode() in answer.error()["message"]
    assert closed


@pytest.mark.parametrize(
    "begun",
    [
        post(b"", framing="Content-Length: 100") + b"{",
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\n",
        get("/slow"),
    ],
    ids=["a body", "a head", "the application"],
)
async def test_whatever_else_is_under_way_gets_the_same_503(
    begun: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with FakeEngine() as engine:
        serving = Serving(engine, waiting_app)
        async with serving.running() as client:
            await client.send(begun)
            await until(lambda: _is_busy(serving.server))
            serving.server.should_exit = True
            answer = await client.read_answer()

    assert (answer.status, answer.error()["code"]) == (503, "server_shutting_down")
    assert len(told(caplog)) == 1


async def test_an_answer_that_is_no_stream_and_has_begun_is_cut() -> None:
    script = [b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{", Act.HOLD]
    async with FakeEngine(script) as engine:
        serving = Serving(engine, waiting_app)
        async with serving.running() as client:
            await client.send(post())
            status, _ = await client.read_head()
            serving.server.should_exit = True
            rest = await client.reader.read()

    assert status == 200
    assert rest == b"{"


async def test_a_client_that_takes_nothing_and_an_application_that_waits_for_ever_hold_nobody_up() -> None:
    flood = chunk(b"data: " + b"x" * 200_000 + b"\n\n")
    async with FakeEngine([SSE_HEAD, *[flood] * 100, Act.HOLD]) as engine:
        serving = Serving(engine, deaf_app)
        async with serving.running() as client, HttpClient(serving.port) as other:
            client.pause()
            await client.send(post(STREAM))
            await other.send(get("/deaf"))
            await until(lambda: serving.server.server_state.tasks and engine.open)
            serving.server.should_exit = True
            answer = await other.read_answer()
        await until(lambda: engine.open == 0)

    assert answer.status == 503
    assert not serving.server.server_state.connections


async def test_a_port_without_hot_routes_hands_them_to_the_application_and_waits_no_longer_for_a_head() -> (
    None
):
    clock = FakeClock()
    async with FakeEngine() as engine:
        serving = Serving(engine, answering_app, clock=clock, plain=True)
        async with (
            serving.running() as client,
            HttpClient(serving.port) as slow,
            HttpClient(serving.port) as wide,
        ):
            handed = await client.ask(post())
            large = await wide.ask(b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * MOST_HEAD_BYTES + b"\r\n\r\n")
            await slow.send(b"GET /api/v1/status HTTP/1.1\r\nHost: a\r\n")
            await until(lambda: any(one._in_head for one in serving.server.server_state.connections))
            for advance_s in (0.0, HEAD_S):
                clock.advance(advance_s)
                for connection in tuple(serving.server.server_state.connections):
                    connection.look()
            late = await slow.read_answer()

    assert (handed.status, handed.body) == (200, b"/v1/chat/completions")
    assert engine.requests == []
    assert (late.status, late.error()["code"]) == (408, "request_timeout")
    assert (large.status, large.error()["code"]) == (431, "head_too_large")


def _is_busy(server: HttpServer) -> bool:
    return any(
        connection._in_head or connection._running is not None
        for connection in server.server_state.connections
    )
