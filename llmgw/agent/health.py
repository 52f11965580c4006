"""Asking an engine over HTTP whether it is ready: one request, one connection, nothing of the answer trusted."""

import asyncio

_MOST_BODY = 64 * 1024
_MOST_HEAD = 32 * 1024


def parse_head(head: bytes) -> tuple[int | None, int]:
    """Read the head of an answer: its status (None when it is no HTTP) and how many bytes of body it announces."""
    lines = head.split(b"\r\n")
    words = lines[0].split(maxsplit=2)
    if len(words) < 2 or not words[0].startswith(b"HTTP/") or not words[1].isdigit():
        return None, 0
    length = 0
    for line in lines[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length" and value.strip().isdigit():
            length = min(int(value), _MOST_BODY)
    return int(words[1][:3]), length


async def ask(host: str, port: int, path: str, *, within_s: float) -> tuple[int | None, bytes]:
    """Ask for `path` and return status and body; the status is None when nobody gave an HTTP answer in time."""
    try:
        async with asyncio.timeout(within_s):
            reader, writer = await asyncio.open_connection(host, port, limit=_MOST_HEAD)
            try:
                shown = f"[{host}]" if ":" in host else host
                request = f"GET {path} HTTP/1.1\r\nHost: {shown}:{port}\r\nConnection: close\r\n\r\n"
                writer.write(request.encode())
                head = await reader.readuntil(b"\r\n\r\n")
                status, length = parse_head(head)
                return status, await reader.readexactly(length)
            finally:
                writer.transport.abort()
    except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return None, b""
