"""The server's end of the link, as an agent sees it: welcomes, acknowledges and remembers."""

import asyncio
from collections.abc import Callable
from typing import Any, Self

import msgspec
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from llmgw.core.fleet.shards import Phase, ShardState
from llmgw.wire.codec import UnknownFrame, encode, from_agent
from llmgw.wire.frames import PROTOCOL, Ack, Register, ShardStatus, Welcome


class FakeHub:
    """Listens on a port of its own; `frames` holds everything that agents said, in its order."""

    def __init__(self, *, heartbeat_s: float = 0.1, welcomes: bool = True, protocol: int = PROTOCOL) -> None:
        self.heartbeat_s = heartbeat_s
        self.protocol = protocol
        self.welcomes = welcomes
        self.frames: list[Any] = []
        self.connections: list[ServerConnection] = []
        self.on_register: Callable[[], object] = lambda: None
        self.port = 0
        self._seq = 0
        self._changed = asyncio.Condition()
        self._server: Server | None = None

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def open(self) -> None:
        """Listen, on the same port as before if there was one."""
        self._server = await serve(self._talk, "127.0.0.1", self.port, ping_interval=None, max_size=None)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()
            self._server = None

    async def send(self, frame: Any) -> None:
        """Send a frame to the latest connection."""
        await self.send_bytes(encode(frame))

    async def send_bytes(self, data: bytes | str) -> None:
        await self.connections[-1].send(data)

    def next_seq(self) -> int:
        self._seq += 1
        return self._seq

    def of(self, kind: type) -> list[Any]:
        return [frame for frame in self.frames if isinstance(frame, kind)]

    def states(self, shard: str = "m.0.0") -> list[ShardState]:
        return [frame.state for frame in self.of(ShardStatus) if frame.state.shard == shard]

    def phases(self, shard: str = "m.0.0") -> list[Phase]:
        return [state.phase for state in self.states(shard)]

    async def until(self, condition: Callable[[], Any], within_s: float = 20.0) -> Any:
        """Wait until `condition` is true, looking after every frame, and return what it gave."""
        async with self._changed:
            try:
                async with asyncio.timeout(within_s):
                    await self._changed.wait_for(condition)
            except TimeoutError:
                raise AssertionError(f"not within {within_s} s; heard {self.frames[-20:]}") from None
            return condition()

    async def phase(self, phase: Phase, shard: str = "m.0.0", within_s: float = 20.0) -> ShardState:
        """Wait until the shard's latest report is of this phase."""

        def there() -> ShardState | None:
            states = self.states(shard)
            return states[-1] if states and states[-1].phase == phase else None

        found: ShardState = await self.until(there, within_s)
        return found

    async def acked(self, seq: int) -> Ack:
        found: Ack = await self.until(lambda: next((a for a in self.of(Ack) if a.seq == seq), None))
        return found

    async def _talk(self, connection: ServerConnection) -> None:
        self.connections.append(connection)
        try:
            async for data in connection:
                assert isinstance(data, bytes)
                await self._heard(connection, from_agent(data))
        except ConnectionClosed:
            return

    def _welcome(self) -> bytes:
        welcome = Welcome(epoch=1, heartbeat_s=self.heartbeat_s, version="fake", protocol=self.protocol)
        if self.protocol == PROTOCOL:
            return encode(welcome)
        # A server of another version says more than this one knows.
        more = msgspec.to_builtins(welcome) | {"later": {"much": [1]}, "type": "welcome"}
        return b"\0" + msgspec.msgpack.encode(more)

    async def _heard(self, connection: ServerConnection, frame: Any) -> None:
        assert not isinstance(frame, UnknownFrame)
        if isinstance(frame, Register):
            self.on_register()
        if isinstance(frame, Register) and self.welcomes:
            await connection.send(self._welcome())
        if isinstance(frame, ShardStatus):
            await connection.send(encode(Ack(seq=frame.seq)))
        async with self._changed:
            self.frames.append(frame)
            self._changed.notify_all()
