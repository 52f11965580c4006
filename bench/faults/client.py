"""One request as a strict client makes it: it can tell a whole answer from a refusal, a broken and a wrong one."""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Answer:
    """What became of one request.

    Attributes:
        status: None when no head of an answer came.
        broken: why it did not come to its proper end; None when it did.
    """

    status: int | None = None
    text: str = ""
    usage: dict[str, Any] = field(default_factory=dict)
    chunks: int = 0
    broken: str | None = None
    began: float = 0.0
    ended: float = 0.0

    @property
    def is_whole(self) -> bool:
        """Tell whether it is a success that came to its end; its text may still be wrong."""
        return self.status == 200 and self.broken is None

    def __str__(self) -> str:
        said = f" {self.text[-200:]!r}" if self.text else ""
        return f"status {self.status}, {self.chunks} chunks, {self.broken or 'ended'}{said}"


async def ask(
    address: str,
    key: str,
    body: dict[str, Any],
    *,
    limit_s: float = 60.0,
    on_chunk: Callable[[int], None] | None = None,
) -> Answer:
    """Send one chat request over a connection of its own; never raises for what becomes of it.

    Args:
        address: host:port.
        on_chunk: told the number of chunks with text so far.
    """
    answer = Answer(began=time.monotonic())
    try:
        async with asyncio.timeout(limit_s):
            await _exchange(answer, address, key, body, on_chunk)
    except TimeoutError:
        answer.broken = f"no end within {limit_s:g} s"
    except (OSError, asyncio.IncompleteReadError, ValueError) as error:
        answer.broken = f"{type(error).__name__}: {error}"
    answer.ended = time.monotonic()
    return answer


async def _exchange(
    answer: Answer, address: str, key: str, body: dict[str, Any], on_chunk: Callable[[int], None] | None
) -> None:
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        raw = json.dumps(body).encode()
        head = (
            f"POST /v1/chat/completions HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {key}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(raw)}\r\nConnection: close\r\n\r\n"
        )
        writer.write(head.encode() + raw)
        await writer.drain()
        await _read(answer, reader, on_chunk)
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def _read(answer: Answer, reader: asyncio.StreamReader, on_chunk: Callable[[int], None] | None) -> None:
    line = await reader.readline()
    if not line.endswith(b"\n"):
        raise ValueError("the connection was closed before an answer")
    status = int(line.split()[1])
    headers = {}
    while (header := await reader.readuntil(b"\r\n")) != b"\r\n":
        name, _, value = header.decode("latin-1").partition(":")
        headers[name.strip().lower()] = value.strip()
    answer.status = status
    if "event-stream" in headers.get("content-type", ""):
        await _read_stream(answer, reader, on_chunk)
        return
    pieces = [piece async for piece in _body(reader, headers)]
    _read_whole(answer, b"".join(pieces))


def _read_whole(answer: Answer, raw: bytes) -> None:
    if answer.status != 200:
        answer.text = raw.decode(errors="replace")
        return
    said = json.loads(raw)
    answer.text = said["choices"][0]["message"]["content"]
    answer.usage = said["usage"]


async def _body(reader: asyncio.StreamReader, headers: dict[str, str]) -> AsyncIterator[bytes]:
    if "content-length" in headers:
        yield await reader.readexactly(int(headers["content-length"]))
    elif headers.get("transfer-encoding") == "chunked":
        async for piece in _chunked(reader):
            yield piece
    else:
        raise ValueError(f"no end is marked in the head of the answer: {headers}")


async def _chunked(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while size := int(await reader.readuntil(b"\r\n"), 16):
        yield await reader.readexactly(size)
        await reader.readexactly(2)
    await reader.readuntil(b"\r\n")


async def _read_stream(
    answer: Answer, reader: asyncio.StreamReader, on_chunk: Callable[[int], None] | None
) -> None:
    rest, done = b"", False
    async for piece in _chunked(reader):
        *events, rest = (rest + piece).split(b"\n\n")
        for event in events:
            data = event.removeprefix(b"data: ")
            if data == b"[DONE]":
                done = True
            elif event.startswith(b"data: "):
                _take(answer, json.loads(data), on_chunk)
    if not done:
        raise ValueError("the stream ended without [DONE]")


def _take(answer: Answer, said: dict[str, Any], on_chunk: Callable[[int], None] | None) -> None:
    if "error" in said:
        raise ValueError(f"the stream told of an error: {said['error']}")
    answer.usage = said.get("usage") or answer.usage
    for choice in said.get("choices") or ():
        if text := choice["delta"].get("content"):
            answer.text += text
            answer.chunks += 1
            if on_chunk is not None:
                on_chunk(answer.chunks)
