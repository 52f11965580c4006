"""A server of weights, and a hub, on loopback: well-behaved or hostile as a test wants, in a thread of its own."""

import asyncio
import hashlib
import socket
import struct
import threading
from typing import Any, NamedTuple, Self
from urllib.parse import unquote

import msgspec

COMMIT = "c0ffee00" * 5
PIECE_BYTES = 64 * 1024


class Manner(NamedTuple):
    """How one answer is given; the default is how it should be.

    Attributes:
        cut_after: reset the connection after so many bytes of the body.
        stall_after: send no more after so many bytes, and keep the connection.
        says: the length that the head names; None names the true one.
        no_length: name no length, and end the body by closing.
        no_range: answer 200 to a Range.
        pace_s: between two pieces of the body.
        status: answer this and no body.
        redirect: answer 302 to this place.
        body: send this in the file's place.
        total: the size that a Content-Range names.
        starts: where a Content-Range says that it starts.
        headers: added to the head.
    """

    cut_after: int | None = None
    stall_after: int | None = None
    says: int | None = None
    no_length: bool = False
    no_range: bool = False
    pace_s: float = 0.0
    status: int | None = None
    redirect: str | None = None
    body: bytes | None = None
    total: int | None = None
    starts: int | None = None
    headers: dict[str, str] = {}  # noqa: RUF012 # never written to


class Request(NamedTuple):
    """What was asked."""

    method: str
    path: str
    headers: dict[str, str]

    @property
    def range(self) -> str | None:
        return self.headers.get("range")


class WeightsServer:
    """Serves `files` by path. `manners` of a path are used up, one a GET; then `manner` holds."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.etags: dict[str, str] = {}
        self._hub: dict[str, dict[str, str]] = {}
        self.manner = Manner()
        self.manners: dict[str, list[Manner]] = {}
        self.head_status: int | None = None
        self.token: str | None = None
        self.requests: list[Request] = []
        self.open = 0
        self.most_open = 0
        self.sent_bytes = 0
        self.port = 0
        self._talks: set[asyncio.Task[Any] | None] = set()
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def serve(self, path: str, content: bytes, *manners: Manner, etag: str | None = None) -> str:
        """Serve a file; returns its URL."""
        self.files[path] = content
        self.manners[path] = list(manners)
        if etag is not None:
            self.etags[path] = etag
        return f"{self.url}{path}"

    def serve_hub(
        self, repo: str, file: str, content: bytes, *manners: Manner, sha256: str | None = None
    ) -> str:
        """Serve a large file of a repository, as the hub does; returns its source."""
        self.serve(f"/{repo}/resolve/{COMMIT}/{file}", content, *manners)
        said = sha256 or hashlib.sha256(content).hexdigest()
        self._hub[f"/{repo}/resolve/main/{file}"] = {
            "x-repo-commit": COMMIT,
            "x-linked-etag": f'"{said}"',
            "x-linked-size": str(len(content)),
        }
        return f"hf://{repo}/{file}"

    def serve_repo(self, repo: str, files: dict[str, bytes], large: frozenset[str] = frozenset()) -> str:
        """Serve a whole repository with its listing; returns its source."""
        entries: list[dict[str, Any]] = [{"type": "directory", "path": "sub", "oid": "0" * 40}]
        for name, content in files.items():
            self.serve(f"/{repo}/resolve/{COMMIT}/{name}", content)
            oid = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
            entry: dict[str, Any] = {"type": "file", "path": name, "size": len(content), "oid": oid}
            if name in large:
                entry["lfs"] = {
                    "oid": hashlib.sha256(content).hexdigest(),
                    "size": len(content),
                    "pointerSize": 1,
                }
            entries.append(entry)
        self.files[f"/api/models/{repo}/revision/main"] = msgspec.json.encode({"sha": COMMIT})
        self.files[f"/api/models/{repo}/tree/{COMMIT}"] = msgspec.json.encode(entries)
        return f"hf://{repo}"

    def gets(self, path: str | None = None) -> list[Request]:
        return [r for r in self.requests if r.method == "GET" and (path is None or r.path == path)]

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._listen())
        self._ready.set()
        self._loop.run_forever()
        self._server.close()
        talks = asyncio.all_tasks(self._loop)
        for task in talks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*talks))
        # The sockets of ended conversations are closed in the next turn of the loop.
        self._loop.run_until_complete(asyncio.sleep(0.01))
        self._loop.close()

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._talk, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # The loop itself holds tasks weakly, and one that waits for ever is nobody else's.
        self._talks.add(asyncio.current_task())
        try:
            while (request := await _read(reader)) is not None:
                self.requests.append(request)
                if not await self._answer(request, writer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        except asyncio.CancelledError:
            # Python 3.11 reports a cancelled conversation as a fault of its own.
            writer.transport.abort()
        finally:
            writer.close()
            self._talks.discard(asyncio.current_task())

    async def _answer(self, request: Request, writer: asyncio.StreamWriter) -> bool:
        path = request.path.partition("?")[0]
        if self.token is not None and request.headers.get("authorization") != f"Bearer {self.token}":
            return await _head(writer, 401, {"content-length": "0", "x-error-code": "GatedRepo"})
        if request.method == "HEAD":
            return await self._heads(path, writer)
        waiting = self.manners.get(path, [])
        manner = waiting.pop(0) if waiting else self.manner
        if manner.redirect is not None:
            return await _head(writer, 302, {"location": manner.redirect, "content-length": "0"})
        if manner.status is not None or path not in self.files:
            return await _head(writer, manner.status or 404, {"content-length": "0"} | manner.headers)
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            return await self._body(request, path, manner, writer)
        finally:
            self.open -= 1

    async def _heads(self, path: str, writer: asyncio.StreamWriter) -> bool:
        if path in self._hub:
            moved = {"location": "http://127.0.0.1:9/elsewhere", "content-length": "0"}
            return await _head(writer, 302, self._hub[path] | moved)
        if self.head_status is not None or path not in self.files:
            return await _head(writer, self.head_status or 404, {"content-length": "0"})
        return await _head(writer, 200, {"content-length": str(len(self.files[path]))})

    async def _body(self, request: Request, path: str, manner: Manner, writer: asyncio.StreamWriter) -> bool:
        content = self.files[path] if manner.body is None else manner.body
        etag = self.etags.get(path)
        start, status = 0, 200
        headers = ({"etag": f'"{etag}"'} if etag else {}) | manner.headers
        same = request.headers.get("if-range") in (None, f'"{etag}"')
        if request.range and not manner.no_range and same:
            start, status = int(request.range.removeprefix("bytes=").partition("-")[0]), 206
            total = len(content) if manner.total is None else manner.total
            if start >= total:
                return await _head(writer, 416, {"content-range": f"bytes */{total}", "content-length": "0"})
            begins = start if manner.starts is None else manner.starts
            headers["content-range"] = f"bytes {begins}-{total - 1}/{total}"
        body = content[start:]
        if not manner.no_length:
            headers["content-length"] = str(len(body) if manner.says is None else manner.says)
        await _head(writer, status, headers | ({"connection": "close"} if manner.no_length else {}))
        return await self._send(body, manner, writer) and not manner.no_length and manner.says is None

    async def _send(self, body: bytes, manner: Manner, writer: asyncio.StreamWriter) -> bool:
        limits = [n for n in (manner.cut_after, manner.stall_after) if n is not None]
        last = min([len(body), *limits])
        for at in range(0, last, PIECE_BYTES):
            piece = body[at : min(last, at + PIECE_BYTES)]
            writer.write(piece)
            await writer.drain()
            self.sent_bytes += len(piece)
            if manner.pace_s:
                await asyncio.sleep(manner.pace_s)
        if manner.cut_after is not None and last == manner.cut_after:
            # What is on its way still arrives; then the connection is gone without an end.
            await asyncio.sleep(0.05)
            # Without lingering the end of the connection is a reset, as of a machine that has gone.
            writer.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
            )
            writer.transport.abort()
            return False
        if manner.stall_after is not None and last == manner.stall_after:
            await asyncio.Event().wait()
        return True


async def _read(reader: asyncio.StreamReader) -> Request | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *rest = head.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ")
    headers = {k.strip().lower(): v.strip() for k, _, v in (line.partition(":") for line in rest if line)}
    return Request(method, unquote(target), headers)


async def _head(writer: asyncio.StreamWriter, status: int, headers: dict[str, str]) -> bool:
    lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    writer.write("\r\n".join(lines).encode("latin-1"))
    await writer.drain()
    return True
