"""Connections to engines: when one is used again, when it is dropped, and what is made of odd answers."""

import asyncio
import socket

from fakes.clock import FakeClock
from fakes.engine import Act, FakeEngine, plain
from fakes.gateway import until

from llmgw.router.proxy import ResponseHead
from llmgw.router.upstream import IDLE_S, Back, Connector, Pool

REQUEST = b"POST /v1/x HTTP/1.1\r\ncontent-length: 2\r\n\r\n"


class Waiting:
    """A receiver that keeps what it is told."""

    def __init__(self) -> None:
        self.status = 0
        self.body = b""
        self.ended = False
        self.lost: tuple[str, bool] | None = None

    def upstream_read(self, head: ResponseHead, parts: list[bytes], ended: bool) -> None:
        self.status = head.status
        self.body += b"".join(parts)
        self.ended = ended

    def upstream_lost(self, why: str, *, reused: bool) -> None:
        self.lost = (why, reused)


async def opened(pool: Pool) -> Back:
    made: asyncio.Future[Back] = asyncio.get_running_loop().create_future()
    pool.open(made.set_result, lambda why: made.set_exception(OSError(why)))
    return await made


async def asked(pool: Pool, back: Back | None = None) -> Waiting:
    waiting = Waiting()
    (back or await opened(pool)).send(waiting, REQUEST, b"{}")
    await until(lambda: waiting.ended or waiting.lost)
    return waiting


async def test_a_connection_is_used_again_within_its_idle_time_only() -> None:
    clock = FakeClock()
    async with FakeEngine() as engine:
        pool = Pool(Connector(clock), "127.0.0.1", engine.port)
        await asked(pool)
        clock.advance(IDLE_S - 0.1)
        kept = pool.take(pool.connector.clock.now())
        assert kept is not None
        await asked(pool, kept)
        clock.advance(IDLE_S)

        assert pool.take(pool.connector.clock.now()) is None
        await until(lambda: engine.open == 0)
        pool.close()


async def test_the_connection_used_last_is_used_first_and_the_others_expire() -> None:
    async with FakeEngine([Act.HOLD, plain(b"1")]) as engine:
        pool = Pool(Connector(FakeClock()), "127.0.0.1", engine.port)
        first, second = await opened(pool), await opened(pool)
        one, two = Waiting(), Waiting()
        first.send(one, REQUEST, b"{}")
        second.send(two, REQUEST, b"{}")
        await until(lambda: engine.held == 2)
        engine.released.set()
        await until(lambda: one.ended and two.ended)
        last = pool.take(pool.connector.clock.now())
        other = pool.take(pool.connector.clock.now())

        assert {last, other} == {first, second}
        for back in (last, other):
            assert back is not None
            back.close()
        pool.close()


async def test_idle_connections_are_closed_when_their_time_is_up_though_nobody_asks() -> None:
    clock = FakeClock()
    async with FakeEngine() as engine:
        pool = Pool(Connector(clock), "127.0.0.1", engine.port)
        await asked(pool)
        assert engine.open == 1

        clock.advance(IDLE_S)
        pool._drop_expired()

        await until(lambda: engine.open == 0)


async def test_a_connection_that_the_engine_closed_is_not_taken() -> None:
    async with FakeEngine([plain(b"1"), Act.CLOSE]) as engine:
        pool = Pool(Connector(FakeClock()), "127.0.0.1", engine.port)
        await asked(pool)
        await until(lambda: engine.open == 0)
        await until(lambda: not pool._idle)

        assert pool.take(pool.connector.clock.now()) is None
        pool.close()


async def test_an_engine_that_wants_to_close_is_believed() -> None:
    for answer in (
        plain(b"1", extra=b"connection: close\r\n"),
        b"HTTP/1.0 200 OK\r\ncontent-length: 1\r\n\r\n1",
    ):
        async with FakeEngine([answer, Act.HOLD]) as engine:
            pool = Pool(Connector(FakeClock()), "127.0.0.1", engine.port)
            waiting = await asked(pool)

            assert waiting.body == b"1"
            assert pool.take(pool.connector.clock.now()) is None
            await until(lambda e=engine: e.open == 0)


async def test_an_answer_that_nobody_asked_for_spoils_the_connection() -> None:
    async with FakeEngine([plain(b"1") + plain(b"2")]) as engine:
        pool = Pool(Connector(FakeClock()), "127.0.0.1", engine.port)
        waiting = await asked(pool)

        assert waiting.body == b"1"
        assert pool.take(pool.connector.clock.now()) is None
        await until(lambda: engine.open == 0)


async def test_trailers_are_dropped() -> None:
    answer = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\nx-late: 1\r\n\r\n"
    async with FakeEngine([answer]) as engine:
        pool = Pool(Connector(FakeClock()), "127.0.0.1", engine.port)
        one = await asked(pool)
        kept = pool.take(pool.connector.clock.now())
        two = await asked(pool, kept)

        assert (one.body, two.body) == (b"a", b"a")
        assert engine.accepted == 1
        pool.close()


async def test_a_loss_before_any_byte_on_a_kept_connection_is_told_from_others() -> None:
    async with FakeEngine([plain(b"1")], [Act.RESET], [Act.RESET]) as engine:
        pool = Pool(Connector(FakeClock()), "127.0.0.1", engine.port)
        await asked(pool)
        kept = await asked(pool, pool.take(pool.connector.clock.now()))
        fresh = await asked(pool)

        assert kept.lost is not None
        assert kept.lost[1]
        assert fresh.lost is not None
        assert not fresh.lost[1]
        pool.close()


async def test_small_writes_leave_at_once() -> None:
    async with FakeEngine() as engine:
        pool = Pool(Connector(FakeClock()), "127.0.0.1", engine.port)
        back = await opened(pool)
        assert back._transport is not None
        made = back._transport.get_extra_info("socket")

        assert made.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
        back.let_go()


async def test_an_opening_that_is_cancelled_calls_nobody() -> None:
    async with FakeEngine() as engine:
        connector = Connector(FakeClock())
        pool = Pool(connector, "127.0.0.1", engine.port)
        called: list[object] = []
        opening = pool.open(called.append, called.append)
        opening.cancel()
        await until(lambda: not connector._opening)
        await until(lambda: engine.open == 0)

        assert called == []


async def test_what_is_being_opened_ends_with_the_connector() -> None:
    async with FakeEngine() as engine:
        connector = Connector(FakeClock())
        called: list[object] = []
        Pool(connector, "127.0.0.1", engine.port).open(called.append, called.append)
        await connector.close()

        assert called == []
        await until(lambda: engine.open == 0)


async def test_a_closed_pool_keeps_nothing() -> None:
    async with FakeEngine() as engine:
        pool = Pool(Connector(FakeClock()), "127.0.0.1", engine.port)
        back = await opened(pool)
        pool.close()
        await asked(pool, back)

        assert pool.take(pool.connector.clock.now()) is None
        await until(lambda: engine.open == 0)
