"""The agent's end of the link without an agent behind it: says what a test wants and keeps all that it was told."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self

from fakes.nodes import an_introduction
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from llmgw.core.fleet.shards import Phase, ShardSpec, ShardState
from llmgw.core.fleet.snapshot import Introduction
from llmgw.wire.codec import encode, from_server
from llmgw.wire.frames import (
    Ack,
    DrainShard,
    Heartbeat,
    Register,
    ShardStatus,
    StartShard,
    StopShard,
    Welcome,
)


class LinkedAgent:
    """One connection; `told` holds every frame of the server in its order."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.told: list[Any] = []
        self.closed: tuple[int, str] | None = None
        self._seq = 0
        self._connection: ClientConnection | None = None
        self._reading: asyncio.Task[None] | None = None
        self._news = asyncio.Condition()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def open(self) -> None:
        self._connection = await connect(
            f"ws://127.0.0.1:{self.port}", compression=None, ping_interval=None, proxy=None, max_size=None
        )
        self._reading = asyncio.create_task(self._read())

    async def close(self) -> None:
        assert self._connection is not None
        assert self._reading is not None
        await self._connection.close()
        await self._reading

    def vanish(self) -> None:
        """Lose the connection as a machine does that loses its power."""
        assert self._connection is not None
        self._connection.transport.abort()

    def stop_reading(self) -> None:
        """Leave what the server sends in the sockets' buffers, as an agent that hangs does."""
        assert self._connection is not None
        self._connection.transport.pause_reading()

    async def register(self, said: Introduction | None = None, **given: Any) -> Welcome:
        await self.say(Register(said=said or an_introduction(**given)))
        welcome: Welcome = await self.until(lambda: next(iter(self.of(Welcome)), None))
        return welcome

    async def say(self, frame: Any) -> None:
        await self.say_bytes(encode(frame))

    async def say_bytes(self, data: bytes | str) -> None:
        assert self._connection is not None
        await self._connection.send(data)

    async def report(self, state: ShardState) -> None:
        self._seq += 1
        await self.say(ShardStatus(seq=self._seq, state=state))

    def of(self, kind: type) -> list[Any]:
        return [frame for frame in self.told if isinstance(frame, kind)]

    async def until(self, condition: Callable[[], Any], within_s: float = 10.0) -> Any:
        """Wait until `condition` is true, looking after every frame, and return what it gave."""
        async with self._news:
            try:
                async with asyncio.timeout(within_s):
                    await self._news.wait_for(condition)
            except TimeoutError:
                raise AssertionError(f"not within {within_s} s; told {self.told[-10:]}") from None
            return condition()

    async def until_closed(self) -> tuple[int, str]:
        found: tuple[int, str] = await self.until(lambda: self.closed)
        return found

    async def started(self, shard: str, after: int = 0) -> ShardSpec:
        """Wait for a start of the shard, past the first `after` of them, and acknowledge it."""

        def there() -> StartShard | None:
            return next(iter([f for f in self.of(StartShard) if f.spec.shard == shard][after:]), None)

        frame: StartShard = await self.until(there)
        await self.say(Ack(seq=frame.seq))
        return frame.spec

    async def stopped(self, shard: str) -> StopShard:
        """Wait for a stop of the shard, and acknowledge it."""

        def there() -> StopShard | None:
            return next((f for f in self.of(StopShard) if f.shard == shard), None)

        frame: StopShard = await self.until(there)
        await self.say(Ack(seq=frame.seq))
        return frame

    async def drained(self, shard: str) -> DrainShard:
        """Wait for a drain of the shard, and acknowledge it."""

        def there() -> DrainShard | None:
            return next((f for f in self.of(DrainShard) if f.shard == shard), None)

        frame: DrainShard = await self.until(there)
        await self.say(Ack(seq=frame.seq))
        return frame

    async def beat(self, every_s: float = 0.3) -> None:
        """Give signs of life for as long as the connection lasts."""
        with suppress(ConnectionClosed):
            while True:
                await self.say(Heartbeat())
                await asyncio.sleep(every_s)

    async def run(self, spec: ShardSpec, *, port: int, phase: Phase = Phase.READY) -> ShardState:
        """Report a shard as if it had been started and its engine listened on `port`."""
        state = state_of(spec, port=port, phase=phase)
        await self.report(state)
        return state

    async def _read(self) -> None:
        assert self._connection is not None
        try:
            async for data in self._connection:
                assert isinstance(data, bytes)
                async with self._news:
                    self.told.append(from_server(data))
                    self._news.notify_all()
        except ConnectionClosed:
            pass
        async with self._news:
            self.closed = (self._connection.close_code or 0, self._connection.close_reason or "")
            self._news.notify_all()


def state_of(spec: ShardSpec, *, port: int, phase: Phase = Phase.READY) -> ShardState:
    return ShardState(
        shard=spec.shard,
        replica=spec.replica,
        model=spec.model,
        ordinal=spec.ordinal,
        generation=spec.generation,
        phase=phase,
        fingerprint=spec.fingerprint,
        profile=spec.profile.name,
        engine=spec.profile.engine,
        host="127.0.0.1",
        port=port,
        min_memory_gb=spec.profile.min_memory_gb,
    )
