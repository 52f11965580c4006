"""The client's connection: framing, order, idleness and shutdown, where the data path and the application share it."""

import asyncio
from typing import Any

import pytest
from fakes.clock import FakeClock
from fakes.engine import LAST_CHUNK, SSE_HEAD, Act, FakeEngine, Script, chunk, plain
from fakes.gateway import Gateway, endpoint, until
from fakes.http_client import get, post

from llmgw.core.routing.table import ModelRoute
from llmgw.router.front import BODY_S, HEAD_S, LEAST_BODY_BYTES, MOST_HEAD_BYTES

# Bodies.


async def test_a_request_arrives_however_its_bytes_are_cut() -> None:
    body = b'{"model": "gemma", "x": "' + "ü".encode() * 50 + b'"}'
    request = post(body)
    async with FakeEngine() as engine, Gateway(engine) as gateway, gateway.client() as client:
        for size in (1, 7, 64):
            for start in range(0, len(request), size):
                await client.send(request[start : start + size])
            answer = await client.read_answer()

            assert answer.status == 200
            assert engine.requests[-1].body == body


async def test_a_chunked_body_reaches_the_engine_whole() -> None:
    pieces = [b'{"model":', b' "gemma", ', b'"x": 1}']
    framed = b"".join(chunk(piece) for piece in pieces) + LAST_CHUNK
    async with FakeEngine() as engine, Gateway(engine) as gateway:
        answer = await gateway.ask(post(b"", framing="Transfer-Encoding: chunked") + framed)

    assert answer.status == 200
    assert engine.requests[0].body == b"".join(pieces)
    assert engine.requests[0].values(b"transfer-encoding") == []


async def test_a_body_of_many_pieces_reaches_the_engine_whole() -> None:
    body = b'{"model": "gemma", "x": "' + bytes(range(97, 123)) * 30_000 + b'"}'
    async with FakeEngine() as engine, Gateway(engine) as gateway:
        answer = await gateway.ask(post(body))

    assert answer.status == 200
    assert engine.requests[0].body == body


async def test_a_body_that_promises_to_be_too_long_is_refused_before_it_comes() -> None:
    async with (
        FakeEngine() as engine,
        Gateway(engine, max_body_bytes=1000) as gateway,
        gateway.client() as client,
    ):
        answer = await client.ask(post(b"", framing="Content-Length: 5000000"))

    assert (answer.status, answer.error()["code"]) == (413, "request_too_large")
    assert answer.get(b"connection") == b"close"


async def test_a_client_that_still_sends_its_too_long_body_gets_to_read_the_answer() -> None:
    async with (
        FakeEngine() as engine,
        Gateway(engine, max_body_bytes=1000) as gateway,
        gateway.client() as client,
    ):
        answer = await client.ask(post(b"x" * 3_000_000))

    assert answer.status == 413


async def test_a_chunked_body_is_refused_when_it_passes_the_limit() -> None:
    framed = chunk(b"x" * 600) * 2
    async with (
        FakeEngine() as engine,
        Gateway(engine, max_body_bytes=1000) as gateway,
        gateway.client() as client,
    ):
        answer = await client.ask(post(b"", framing="Transfer-Encoding: chunked") + framed)

    assert answer.status == 413
    assert engine.requests == []


async def test_a_refused_request_that_came_whole_leaves_the_connection_open() -> None:
    async with (
        FakeEngine() as engine,
        Gateway(engine, max_body_bytes=100) as gateway,
        gateway.client() as client,
    ):
        refused = await client.ask(post(b"x" * 200))
        served = await client.ask(post())

    assert (refused.status, served.status) == (413, 200)


async def test_a_client_that_expects_100_continue_gets_it_once_it_may_send() -> None:
    body = b'{"model": "gemma"}'
    async with FakeEngine() as engine, Gateway(engine) as gateway, gateway.client() as client:
        await client.send(
            post(b"", headers=("Expect: 100-continue",), framing=f"Content-Length: {len(body)}")
        )
        interim = await client.reader.readuntil(b"\r\n\r\n")
        answer = await client.ask(body)

    assert interim == b"HTTP/1.1 100 Continue\r\n\r\n"
    assert answer.status == 200
    assert engine.requests[0].values(b"expect") == []


async def test_a_client_that_expects_100_continue_without_a_key_is_refused_instead() -> None:
    async with FakeEngine() as engine, Gateway(engine) as gateway, gateway.client() as client:
        answer = await client.ask(
            post(b"", key=None, headers=("Expect: 100-continue",), framing="Content-Length: 10")
        )

    assert answer.status == 401
    assert answer.get(b"www-authenticate") == b"Bearer"


async def test_a_wish_for_another_protocol_is_not_granted_and_loses_nothing() -> None:
    """Some clients ask for HTTP/2 in clear with every first request, bodies included."""
    headers = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAA")
    async with FakeEngine() as engine, Gateway(engine) as gateway, gateway.client() as client:
        hot = await client.ask(post(headers=headers))
        again = await client.ask(post())
        other = await client.ask(post(b"abc", path="/other", headers=headers))

    assert (hot.status, again.status, other.body) == (200, 200, b"/other|abc")
    assert engine.requests[0].body == b'{"model": "gemma"}'


async def test_fields_that_change_between_requests_on_a_connection_are_seen() -> None:
    async with FakeEngine() as engine, Gateway(engine) as gateway, gateway.client() as client:
        for value in ("1", "1", "2", "1"):
            await client.ask(post(headers=(f"X-Turn: {value}",)))
        denied = await client.ask(post(key="sk-llmgw-wrong"))

    assert [request.values(b"x-turn") for request in engine.requests] == [[b"1"], [b"1"], [b"2"], [b"1"]]
    assert denied.status == 401


async def test_trailers_of_a_request_are_dropped() -> None:
    framed = chunk(b'{"model": "gemma"}') + b"0\r\nX-Late: 1\r\n\r\n"
    request = post(b"", framing="Transfer-Encoding: chunked") + framed
    async with FakeEngine() as engine, Gateway(engine) as gateway, gateway.client() as client:
        statuses = [(await client.ask(request)).status for _ in range(2)]

    assert statuses == [200, 200]
    assert all(seen.values(b"x-late") == [] for seen in engine.requests)


async def test_a_target_with_scheme_and_host_is_understood() -> None:
    async with FakeEngine() as engine, Gateway(engine) as gateway:
        answer = await gateway.ask(post(path="http://gateway/v1/chat/completions"))

    assert answer.status == 200
    assert engine.requests[0].line == b"POST /v1/chat/completions HTTP/1.1"


async def test_a_websocket_goes_to_the_application_and_outlives_the_keep_alive_time() -> None:
    fields = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    handshake = (
        f"GET /live HTTP/1.1\r\nHost: gateway\r\n{fields}Sec-WebSocket-Key: {'A' * 22}==\r\n\r\n".encode()
    )
    async with (
        FakeEngine() as engine,
        Gateway(engine, keep_alive_s=1000) as gateway,
        gateway.client() as client,
    ):
        await client.ask(post())
        connection: Any = next(iter(gateway.server.server_state.connections))
        await client.send(handshake)
        status, _ = await client.read_head()
        frame = await client.reader.readexactly(4)

    assert status == 101
    assert frame == b"\x81\x02hi"
    assert connection.timeout_keep_alive_task is None


# Order.


async def test_requests_sent_in_one_go_are_answered_in_order_whoever_answers_them() -> None:
    together = get("/one") + post() + get("/two") + post(b"bad") + post() + get("/v1/models") + get("/three")
    async with FakeEngine() as engine, Gateway(engine) as gateway, gateway.client() as client:
        await client.send(together)
        answers = [await client.read_answer() for _ in range(7)]

    assert [answer.status for answer in answers] == [200, 200, 200, 400, 200, 200, 200]
    assert [answers[i].body for i in (0, 2, 6)] == [b"/one|", b"/two|", b"/three|"]
    assert len(engine.requests) == 2


async def test_a_request_behind_a_stream_waits_for_its_end() -> None:
    script: Script = [SSE_HEAD, chunk(b"data: 1\n\n"), Act.HOLD, chunk(b"data: [DONE]\n\n"), LAST_CHUNK]
    async with FakeEngine(script) as engine, Gateway(engine) as gateway, gateway.client() as client:
        await client.send(post() + get("/after"))
        _, _ = await client.read_head()
        first = await client.read_chunk()
        engine.released.set()
        rest = [await client.read_chunk(), await client.read_chunk()]
        after = await client.read_answer()

    assert [first, *rest] == [b"data: 1\n\n", b"data: [DONE]\n\n", b""]
    assert after.body == b"/after|"


async def test_a_long_row_of_refused_requests_is_answered() -> None:
    async with (
        FakeEngine([Act.HOLD, plain(b"{}")]) as engine,
        Gateway(engine) as gateway,
        gateway.client() as client,
    ):
        await client.send(post() + post(b"bad") * 1500)
        await until(lambda: engine.held == 1)
        engine.released.set()
        answers = [await client.read_answer() for _ in range(1501)]

    assert [answer.status for answer in answers] == [200] + [400] * 1500


async def test_a_client_that_leaves_with_requests_waiting_ends_them_all() -> None:
    async with FakeEngine([Act.HOLD]) as engine, Gateway(engine) as gateway, gateway.client() as client:
        await client.send(post() * 3)
        await until(lambda: engine.held == 1)
        client.reset()
        await until(lambda: engine.open == 0, deadline_s=1)

        assert len(engine.requests) == 1
        assert gateway.outstanding() == [0]


async def test_what_is_not_http_is_refused_in_the_usual_shape() -> None:
    async with FakeEngine() as engine, Gateway(engine) as gateway, gateway.client() as client:
        answer = await client.ask(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n")

    assert (answer.status, answer.error()["code"]) == (400, "invalid_http")


async def test_a_length_and_chunks_together_are_refused() -> None:
    """Two readers that disagree about where a request ends can be made to see different requests."""
    headers = ("Transfer-Encoding: chunked",)
    async with FakeEngine() as engine, Gateway(engine) as gateway, gateway.client() as client:
        answer = await client.ask(post(headers=headers))

    assert answer.status == 400
    assert engine.requests == []


@pytest.mark.slow
async def test_garbage_behind_a_request_is_refused_behind_its_answer() -> None:
    async with (
        FakeEngine([Act.HOLD, plain(b"{}")]) as engine,
        Gateway(engine) as gateway,
        gateway.client() as client,
    ):
        await client.send(post() + b"\x00\x01\x02\r\n\r\n")
        await until(lambda: engine.held == 1)
        engine.released.set()
        answers = [await client.read_answer(), await client.read_answer()]
        closed = await client.is_closed()

    assert [answer.status for answer in answers] == [200, 400]
    assert closed


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/other"])
@pytest.mark.parametrize("framed", [b"-1\r\n", b"0xD\r\n", b"FFFFFFFFFFFFFFFFFF\r\n", b"5\nhello\n0\n\n"])
async def test_a_body_whose_framing_is_broken_is_refused(path: str, framed: bytes) -> None:
    request = post(b"", path=path, framing="Transfer-Encoding: chunked") + framed
    async with FakeEngine() as engine, Gateway(engine) as gateway:
        async with gateway.client() as client:
            alone = await client.ask(request)
        async with gateway.client() as client:
            await client.send(post() + request)
            behind = [await client.read_answer(), await client.read_answer()]

    assert (alone.status, alone.error()["code"]) == (400, "invalid_http")
    assert [answer.status for answer in behind] == [200, 400]


async def test_an_unknown_transfer_encoding_is_refused() -> None:
    async with FakeEngine() as engine, Gateway(engine) as gateway:
        answer = await gateway.ask(post(b"", framing="Transfer-Encoding: xchunked"))

    assert answer.status == 400


@pytest.mark.slow
async def test_connect_is_refused_once_however_long_its_head() -> None:
    lines = "".join(f"a{i}: b\r\n" for i in range(6000)).encode()
    async with FakeEngine() as engine, Gateway(engine) as gateway:
        for fields in (b"", lines):
            async with gateway.client() as client:
                await client.send(b"CONNECT x:443 HTTP/1.1\r\n" + fields + b"\r\n")
                answer = await client.read_answer()

                assert (answer.status, answer.error()["code"]) == (405, "method_not_allowed")
                assert await client.is_closed()


async def test_a_long_row_of_wishes_for_another_protocol_is_answered() -> None:
    wish = b"GET /other HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
    async with FakeEngine() as engine, Gateway(engine) as gateway, gateway.client() as client:
        await client.send(wish * 1000)
        statuses = {(await client.read_answer()).status for _ in range(1000)}

    assert statuses == {200}


async def test_a_head_that_is_too_long_is_refused_though_it_comes_in_one_read() -> None:
    head = post(headers=("X-Long: " + "x" * (MOST_HEAD_BYTES + 1000),))
    async with FakeEngine() as engine, Gateway(engine) as gateway:
        answer = await gateway.ask(head)

    assert (answer.status, answer.error()["code"]) == (431, "head_too_large")


@pytest.mark.parametrize("target", ["http://gateway", "http://gateway?a=/b"])
async def test_a_target_of_scheme_and_host_alone_means_the_root(target: str) -> None:
    async with FakeEngine() as engine, Gateway(engine) as gateway:
        answer = await gateway.ask(get(target))

    assert (answer.status, answer.body) == (200, b"/|")


async def test_a_head_without_end_is_refused() -> None:
    async with FakeEngine() as engine, Gateway(engine) as gateway, gateway.client() as client:
        await client.send(b"POST /v1/chat/completions HTTP/1.1\r\nX-Long: ")
        for _ in range(20):
            await client.send(b"x" * MOST_HEAD_BYTES)
        answer = await client.read_answer()

    assert answer.status == 431


# Requests that do not go on.


async def _connection(gateway: Gateway) -> Any:
    await until(lambda: gateway.server.server_state.connections)
    return next(iter(gateway.server.server_state.connections))


async def test_a_connection_that_never_asks_is_closed() -> None:
    clock = FakeClock()
    async with Gateway(clock=clock) as gateway, gateway.client() as client:
        connection = await _connection(gateway)
        clock.advance(HEAD_S)
        connection.look()

        assert await client.is_closed()


@pytest.mark.parametrize("before", [b"", get("/other")])
async def test_a_head_that_does_not_end_is_refused_after_its_time(before: bytes) -> None:
    clock = FakeClock()
    async with Gateway(clock=clock) as gateway, gateway.client() as client:
        if before:
            await client.ask(before)
        connection = await _connection(gateway)
        await client.send(b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\n")
        await until(lambda: connection._in_head)
        connection.look()
        clock.advance(HEAD_S)
        connection.look()
        answer = await client.read_answer()

        assert (answer.status, answer.error()["code"]) == (408, "request_timeout")
        assert answer.get(b"connection") == b"close"


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/other"])
@pytest.mark.parametrize("last", [b"", b" "], ids=["stops", "trickles"])
async def test_a_body_that_brings_next_to_nothing_is_refused_after_its_time_and_one_that_goes_on_is_not(
    path: str, last: bytes
) -> None:
    clock = FakeClock()
    async with FakeEngine() as engine, Gateway(engine, clock=clock) as gateway, gateway.client() as client:
        await client.send(post(b"", path=path, framing="Content-Length: 9999") + b"{")
        connection = await _connection(gateway)
        await until(lambda: connection._find_awaited() is not None)
        first = connection._find_awaited()
        connection.look()
        clock.advance(BODY_S)
        await client.send(b" " * LEAST_BODY_BYTES)
        await until(lambda: connection._find_awaited() != first)
        connection.look()
        open_still = not connection.transport.is_closing() and connection._running is not None
        second = connection._find_awaited()
        await client.send(last)
        await until(lambda: not last or connection._find_awaited() != second)
        clock.advance(BODY_S)
        connection.look()
        answer = await client.read_answer()

    assert open_still
    assert (answer.status, answer.error()["code"]) == (408, "request_timeout")


async def test_a_connection_with_an_answer_under_way_owes_nothing() -> None:
    clock = FakeClock()
    async with (
        FakeEngine([Act.HOLD, plain(b"{}")]) as engine,
        Gateway(engine, clock=clock) as gateway,
        gateway.client() as client,
    ):
        await client.send(post())
        await until(lambda: engine.held == 1)
        connection = await _connection(gateway)
        for _ in range(3):
            connection.look()
            clock.advance(BODY_S * 2)
        engine.released.set()
        answer = await client.read_answer()

    assert answer.status == 200


# Idleness and shutdown.


async def test_an_idle_connection_is_closed_after_the_keep_alive_time_and_a_busy_one_is_not() -> None:
    async with (
        FakeEngine([plain(b"{}")], [Act.HOLD, plain(b"{}")]) as engine,
        Gateway(engine, keep_alive_s=0) as gateway,
        gateway.client() as idle,
        gateway.client() as busy,
    ):
        await idle.ask(post())
        await busy.send(post())
        await until(lambda: engine.held == 1)
        closed = await idle.is_closed()
        engine.released.set()
        answer = await busy.read_answer()

    assert closed
    assert answer.status == 200


async def test_a_connection_that_was_used_in_the_keep_alive_time_gets_it_again() -> None:
    async with (
        FakeEngine() as engine,
        Gateway(engine, keep_alive_s=1000) as gateway,
        gateway.client() as client,
    ):
        await client.ask(post())
        connection: Any = next(iter(gateway.server.server_state.connections))
        await client.ask(post())
        connection.timeout_keep_alive_handler()
        still_served = await client.ask(post())
        connection.timeout_keep_alive_handler()
        connection.timeout_keep_alive_handler()

        assert still_served.status == 200
        assert await client.is_closed()


async def test_a_client_that_wants_no_more_is_let_go() -> None:
    async with FakeEngine() as engine, Gateway(engine) as gateway, gateway.client() as client:
        answer = await client.ask(post(headers=("Connection: close",)))

        assert answer.get(b"connection") == b"close"
        assert await client.is_closed()


async def test_a_request_under_way_is_finished_when_the_server_shuts_down() -> None:
    script: Script = [SSE_HEAD, chunk(b"data: 1\n\n"), Act.HOLD, chunk(b"data: [DONE]\n\n"), LAST_CHUNK]
    async with (
        FakeEngine(script) as engine,
        Gateway(engine) as gateway,
        gateway.client() as client,
        gateway.client() as idle,
    ):
        await idle.ask(get("/other"))
        await client.send(post())
        await until(lambda: engine.held == 1)
        stopping = asyncio.ensure_future(gateway.stop())
        idle_closed = await idle.is_closed()
        engine.released.set()
        answer = await client.read_answer()
        closed = await client.is_closed()
        await stopping

    assert answer.body == b"data: 1\n\ndata: [DONE]\n\n"
    assert (idle_closed, closed) == (True, True)


async def test_a_new_table_does_not_disturb_a_connection() -> None:
    async with FakeEngine() as engine, Gateway(engine) as gateway, gateway.client() as client:
        before = await client.ask(post())
        gateway.serve(ModelRoute(name="other", endpoints=(endpoint(engine, model="other"),)))
        gone = await client.ask(post())
        after = await client.ask(post(b'{"model": "other"}'))

    assert [answer.status for answer in (before, gone, after)] == [200, 404, 200]


async def test_a_request_that_comes_while_the_server_shuts_down_is_answered_as_the_last_one() -> None:
    async with (
        FakeEngine() as engine,
        Gateway(engine) as gateway,
        gateway.client() as hot,
        gateway.client() as other,
    ):
        await other.ask(get("/other"))
        await hot.ask(get("/other"))
        stopping = asyncio.ensure_future(gateway.stop())
        await until(lambda: not gateway.server.started)
        await asyncio.sleep(0)
        answers = [await hot.ask(post()), await other.ask(get("/other"))]
        closed = [await hot.is_closed(), await other.is_closed()]
        await stopping

    assert [answer.status for answer in answers] == [200, 200]
    assert [answer.get(b"connection") for answer in answers] == [b"close", b"close"]
    assert closed == [True, True]
