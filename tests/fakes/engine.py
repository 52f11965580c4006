"""An inference engine on a real socket whose answers a test writes down beforehand."""

import asyncio
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto


class Act(Enum):
    """What an engine may do in an answer beside sending bytes."""

    HOLD = auto()  # until the test releases it, or the other side is gone
    RESET = auto()  # the connection, with what TCP has for that
    CLOSE = auto()  # the connection, in order


Script = Sequence[bytes | Act]


@dataclass
class SeenRequest:
    """A request as it came over the wire."""

    line: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes

    def values(self, name: bytes) -> list[bytes]:
        return [value for field, value in self.headers if field == name]


def plain(body: bytes, status: int = 200, extra: bytes = b"") -> bytes:
    head = b"HTTP/1.1 %d Said\r\ncontent-type: application/json\r\n%bcontent-length: %d\r\n\r\n"
    return head % (status, extra, len(body)) + body


SSE_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


class FakeEngine:
    """Answers each request with the next script; the last one serves all that follow."""

    def __init__(self, *scripts: Script) -> None:
        self.scripts: list[Script] = list(scripts) or [[plain(b'{"ok": true}')]]
        self.requests: list[SeenRequest] = []
        self.accepted = 0
        self.open = 0
        self.held = 0
        self.released = asyncio.Event()
        self.port = 0
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> "FakeEngine":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, limit=1 << 20)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._server is not None
        self._server.close()
        for writer in tuple(self._writers):
            writer.transport.abort()
        await asyncio.gather(*self._serving, return_exceptions=True)
        await self._server.wait_closed()

    def answers(self, *scripts: Script) -> None:
        self.scripts = list(scripts)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        self._writers.add(writer)
        self.accepted += 1
        self.open += 1
        try:
            while await self._one(reader, writer):
                pass
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self.open -= 1
            self._writers.discard(writer)
            writer.transport.abort()
            self._serving.discard(task)

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        self.requests.append(await _read_request(reader))
        script = self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0]
        for step in script:
            if isinstance(step, bytes):
                writer.write(step)
                await writer.drain()
                await asyncio.sleep(0)
            elif step is Act.HOLD:
                if not await self._hold(reader):
                    return False
            else:
                if step is Act.RESET:
                    made: socket.socket = writer.get_extra_info("socket")
                    made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    writer.transport.abort()
                else:
                    writer.close()
                    await writer.wait_closed()
                return False
        return True

    async def _hold(self, reader: asyncio.StreamReader) -> bool:
        self.held += 1
        released = asyncio.ensure_future(self.released.wait())
        gone = asyncio.ensure_future(reader.read(1))
        try:
            await asyncio.wait({released, gone}, return_when=asyncio.FIRST_COMPLETED)
            return released.done()
        finally:
            self.held -= 1
            released.cancel()
            gone.cancel()
            await asyncio.gather(released, gone, return_exceptions=True)


async def _read_request(reader: asyncio.StreamReader) -> SeenRequest:
    head = await reader.readuntil(b"\r\n\r\n")
    line, *fields = head[:-4].split(b"\r\n")
    headers = []
    for field in fields:
        name, _, value = field.partition(b":")
        headers.append((name.lower(), value.strip()))
    length = next((int(value) for name, value in headers if name == b"content-length"), 0)
    return SeenRequest(line, headers, await reader.readexactly(length))
