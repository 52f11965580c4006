"""A client on a real socket that sends bytes as a test wrote them and reads answers by the book."""

import asyncio
import json
import socket
import struct
from dataclasses import dataclass
from typing import Any


@dataclass
class Answer:
    """An answer as it came over the wire; `raw_head` is its head, `body` without framing."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes

    def get(self, name: bytes) -> bytes | None:
        return next((value for field, value in self.headers if field == name), None)

    def error(self) -> dict[str, Any]:
        error = json.loads(self.body)["error"]
        assert set(error) == {"message", "type", "param", "code"}
        return dict(error)


class HttpClient:
    """One connection."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.reader: asyncio.StreamReader
        self.writer: asyncio.StreamWriter

    async def __aenter__(self) -> "HttpClient":
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 20)
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.writer.transport.abort()

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def read_head(self) -> tuple[int, list[tuple[bytes, bytes]]]:
        head = await self.reader.readuntil(b"\r\n\r\n")
        line, *fields = head[:-4].split(b"\r\n")
        headers = []
        for field in fields:
            name, _, value = field.partition(b": ")
            headers.append((name.lower(), value))
        return int(line.split(b" ")[1]), headers

    async def read_answer(self) -> Answer:
        status, headers = await self.read_head()
        return Answer(status, headers, await self._read_body(status, dict(headers)))

    async def _read_body(self, status: int, headers: dict[bytes, bytes]) -> bytes:
        if status in (204, 304):
            return b""
        if b"content-length" in headers:
            return await self.reader.readexactly(int(headers[b"content-length"]))
        if headers.get(b"transfer-encoding") != b"chunked":
            return await self.reader.read()
        body = b""
        while data := await self.read_chunk():
            body += data
        return body

    async def read_chunk(self) -> bytes:
        size = int(await self.reader.readuntil(b"\r\n"), 16)
        data = await self.reader.readexactly(size + 2)
        assert data.endswith(b"\r\n")
        return data[:-2]

    async def ask(self, data: bytes) -> Answer:
        await self.send(data)
        return await self.read_answer()

    async def is_closed(self) -> bool:
        """Wait until the server has closed the connection."""
        try:
            return await self.reader.read() == b""
        except ConnectionError:
            return True

    def pause(self) -> None:
        """Take nothing that comes, as a client that is busy elsewhere."""
        self.writer.transport.pause_reading()  # type: ignore[attr-defined]  # a stream's transport reads too

    def resume(self) -> None:
        self.writer.transport.resume_reading()  # type: ignore[attr-defined]  # as above

    def leave(self) -> None:
        """Close in order."""
        self.writer.close()

    def reset(self) -> None:
        """Leave without a word."""
        made: socket.socket = self.writer.get_extra_info("socket")
        made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


KEY = "sk-llmgw-test"


def post(
    body: bytes = b'{"model": "gemma"}',
    *,
    path: str = "/v1/chat/completions",
    key: str | None = KEY,
    headers: tuple[str, ...] = (),
    framing: str | None = None,
    version: str = "1.1",
) -> bytes:
    """Write a POST; `framing` replaces the Content-Length line."""
    lines = [f"POST {path} HTTP/{version}", "Host: gateway", "Content-Type: application/json"]
    if key is not None:
        lines.append(f"Authorization: Bearer {key}")
    lines += [*headers, framing if framing is not None else f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


def get(path: str, key: str | None = KEY, method: str = "GET") -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: gateway"]
    if key is not None:
        lines.append(f"Authorization: Bearer {key}")
    return "\r\n".join([*lines, "", ""]).encode()
