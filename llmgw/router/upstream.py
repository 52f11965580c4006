"""Connections to engines: one request at a time on each, kept for the next one for a short while.

Guarantees:
1. There is no limit on connections: whoever limits requests does so before one comes here.
2. A connection is used again only when its answer was read to the end, nothing of the request is still unsent, and
   both sides meant to keep it. It is dropped after 3 s of idleness, because engines close theirs after 5 s and a
   request written into a closing connection is lost.
3. A receiver that lets go of its connection closes the socket at once, so that the engine stops working for it.
4. No task and no future per request: only the opening of a connection runs in a task, which the connector owns.
"""

import asyncio
import socket
from collections.abc import Callable
from typing import Protocol

import httptools

from llmgw.router.proxy import Header, ResponseFields, ResponseHead
from llmgw.runtime.clock import Clock

IDLE_S = 3.0
CONNECT_S = 3.0
MOST_HEAD_BYTES = 64 * 1024
_SHOWN = 80
READ_BYTES = 64 * 1024
"""Most that one read brings. A slow client costs what its connection has not taken yet and one read on top of it."""


class Receiver(Protocol):
    """Whoever is waiting for an answer."""

    def upstream_read(self, head: ResponseHead, parts: list[bytes], ended: bool) -> None:
        """Take what one read brought of the answer's body; the same head comes with every read.

        Args:
            ended: the answer is whole, and the connection belongs to the receiver no longer.
        """

    def upstream_lost(self, why: str, *, reused: bool) -> None:
        """Learn that the connection is gone before the answer was whole, and belongs to the receiver no longer.

        Args:
            reused: the connection had served an earlier request and no byte came for this one, so that the engine
                has most likely closed it before it saw the request.
        """


class Connector:
    """What all connections share: the clock, the tasks that open them, and the memory that reads go to.

    One loop runs all connections and a read is worked off before the next begins, so one buffer serves them all.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.buffer = bytearray(READ_BYTES)
        self.view = memoryview(self.buffer)
        self._opening: set[asyncio.Task[None]] = set()

    def run(self, opening: "Opening") -> None:
        """Open a connection in a task of its own."""
        task = asyncio.get_running_loop().create_task(opening.run())
        opening.task = task
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    async def close(self) -> None:
        """Give up on every connection that is being opened."""
        opening = tuple(self._opening)
        for task in opening:
            task.cancel()
        await asyncio.gather(*opening, return_exceptions=True)


class Opening:
    """A connection that is being opened for one request; `cancel` when the request has no use for it any more."""

    def __init__(self, pool: "Pool", opened: Callable[["Back"], None], failed: Callable[[str], None]) -> None:
        self._pool = pool
        self._opened = opened
        self._failed = failed
        self._wanted = True
        self.task: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Connect and hand the connection over, or say why it could not be made."""
        pool = self._pool
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_S):
                _, back = await loop.create_connection(lambda: Back(pool), pool.host, pool.port)
        except TimeoutError:
            self._fail(f"no connection within {CONNECT_S:g} s")
        except OSError as error:
            self._fail(error.strerror or str(error))
        except (ValueError, OverflowError) as error:
            # A host that no name server could be asked for, or a port that does not exist.
            self._fail(f"{pool.host[:_SHOWN]!r} with port {pool.port} is no address ({type(error).__name__})")
        else:
            if self._wanted:
                self._wanted = False
                self._opened(back)
            else:
                back.close()

    def _fail(self, why: str) -> None:
        if self._wanted:
            self._wanted = False
            self._failed(why)

    def cancel(self) -> None:
        """Stop opening; neither of the two callbacks is called after this."""
        self._wanted = False
        if self.task is not None:
            self.task.cancel()


class Pool:
    """The connections to one engine that wait for a request; the one used last is used first."""

    def __init__(self, connector: Connector, host: str, port: int) -> None:
        self.connector = connector
        self.host = host
        self.port = port
        self._idle: list[Back] = []
        self._sweep: asyncio.TimerHandle | None = None
        self._closed = False

    def take(self, now: float) -> "Back | None":
        """Take a connection that is open and idle, or None."""
        idle = self._idle
        while idle:
            back = idle.pop()
            if now - back.idle_since < IDLE_S and not back.is_closing():
                return back
            back.close()
        return None

    def open(self, opened: "Callable[[Back], None]", failed: Callable[[str], None]) -> Opening:
        """Open another connection; exactly one of the two is called, later, unless the opening is cancelled."""
        opening = Opening(self, opened, failed)
        self.connector.run(opening)
        return opening

    def give(self, back: "Back") -> None:
        """Keep a connection for the next request."""
        if self._closed:
            back.close()
            return
        back.idle_since = self.connector.clock.now()
        self._idle.append(back)
        if self._sweep is None:
            self._sweep = asyncio.get_running_loop().call_later(IDLE_S, self._drop_expired)

    def forget(self, back: "Back") -> None:
        """Keep this connection no longer: it was closed by the engine."""
        if back in self._idle:
            self._idle.remove(back)

    def close(self) -> None:
        """Close what is idle, now and from now on; connections in use go on."""
        self._closed = True
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        idle, self._idle = self._idle, []
        for back in idle:
            back.close()

    def _drop_expired(self) -> None:
        self._sweep = None
        now = self.connector.clock.now()
        # Connections are appended when they become idle, so the ones idle longest come first.
        while self._idle and now - self._idle[0].idle_since >= IDLE_S:
            self._idle.pop(0).close()
        if self._idle:
            rest_s = self._idle[0].idle_since + IDLE_S - now
            self._sweep = asyncio.get_running_loop().call_later(rest_s, self._drop_expired)


class Back(asyncio.BufferedProtocol):
    """One connection to an engine."""

    __slots__ = (
        "_ended",
        "_got_bytes",
        "_has_body",
        "_head",
        "_head_bytes",
        "_headers",
        "_is_stray",
        "_keep_alive",
        "_last_fields",
        "_last_headers",
        "_length",
        "_parser",
        "_parts",
        "_pool",
        "_receiver",
        "_transport",
        "_uses",
        "idle_since",
    )

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._parser = httptools.HttpResponseParser(self)
        self._receiver: Receiver | None = None
        self._transport: asyncio.Transport | None = None
        self._uses = 0
        self.idle_since = 0.0
        # What the last answer had; the next one mostly has the same.
        self._last_headers: list[Header] = []
        self._last_fields = ResponseFields(())
        self._expect_answer()

    def _expect_answer(self) -> None:
        self._headers: list[Header] = []
        self._length: bytes | None = None
        self._head: ResponseHead | None = None
        self._head_bytes = 0
        self._parts: list[bytes] = []
        self._got_bytes = False
        self._has_body = False
        self._ended = False
        self._is_stray = False
        self._keep_alive = False

    # What a receiver does with it.

    def send(self, receiver: Receiver, head: bytes, body: bytes | bytearray) -> None:
        """Send a request; its answer goes to `receiver`."""
        self._receiver = receiver
        self._uses += 1
        transport = self._transport
        if transport is None or transport.is_closing():
            self._lose("the connection was closed before the request was sent")
        elif len(body) <= READ_BYTES:
            transport.write(head + body)
        else:
            # A big body is not copied once more just to save a system call.
            transport.write(head)
            transport.write(body)

    def let_go(self) -> None:
        """Close the connection at once, whatever is under way on it; the receiver hears nothing any more."""
        self._receiver = None
        if self._transport is not None:
            self._transport.abort()

    def pause(self) -> None:
        """Read nothing until `resume`: the client takes its bytes more slowly than they come."""
        if not self.is_closing():
            self._transport.pause_reading()  # type: ignore[union-attr]  # a closing connection may have none

    def resume(self) -> None:
        """Read again."""
        if not self.is_closing():
            self._transport.resume_reading()  # type: ignore[union-attr]  # as above

    def is_closing(self) -> bool:
        """Tell whether it is of no use any more."""
        return self._transport is None or self._transport.is_closing()

    def close(self) -> None:
        """Close an idle connection."""
        if self._transport is not None:
            self._transport.close()

    # What the event loop does with it.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # TCP gives no other
        """Begin: small writes leave at once."""
        self._transport = transport
        made: socket.socket = transport.get_extra_info("socket")
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def get_buffer(self, sizehint: int) -> bytearray:
        """Lend the shared buffer for one read."""
        return self._pool.connector.buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Work off one read."""
        if self._receiver is None:
            # An engine that speaks unasked is out of step with us.
            self.let_go()
            return
        self._got_bytes = True
        try:
            self._parser.feed_data(self._pool.connector.view[:nbytes])
        except httptools.HttpParserError as error:
            if not self._ended:
                self._lose(f"its answer is not HTTP ({error})")
                return
            self._is_stray = True
        except httptools.HttpParserUpgrade:
            self._lose("it switched to a protocol that nobody asked for")
            return
        if self._head is not None:
            self._hand_on(self._head)
        else:
            self._bound_head(nbytes)

    def _bound_head(self, nbytes: int) -> None:
        self._head_bytes += nbytes
        if self._head_bytes > MOST_HEAD_BYTES:
            self._lose(f"the head of its answer is longer than {MOST_HEAD_BYTES} bytes")

    def _hand_on(self, head: ResponseHead) -> None:
        receiver = self._receiver
        if receiver is None:
            return
        parts, ended = self._parts, self._ended
        if parts:
            self._has_body = True
            self._parts = []
        if ended:
            self._receiver = None
            self._finish()
        receiver.upstream_read(head, parts, ended)

    def _finish(self) -> None:
        transport = self._transport
        if transport is None:
            return
        if self._may_serve_again(transport):
            self._expect_answer()
            self._pool.give(self)
        else:
            transport.abort()

    def _may_serve_again(self, transport: asyncio.Transport) -> bool:
        # Whether it is closing is asked when it is taken; what is unsent of this request must not go before the next.
        return self._keep_alive and not self._is_stray and not transport.get_write_buffer_size()

    def eof_received(self) -> None:
        """Let the transport close itself; `connection_lost` follows."""

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the receiver, or the pool when there is none."""
        head = self._head
        if self._receiver is None:
            self._pool.forget(self)
        elif head is not None and head.until_close and self._has_body and exc is None:
            # Without a body this could be an engine that died behind its head; a death is never an empty answer.
            self._ended = True
            self._hand_on(head)
        else:
            self._lose("it closed the connection" if exc is None else f"the connection broke ({exc})")
        self._transport = None

    def pause_writing(self) -> None:
        """Write on: the body of the request is in memory anyway and the transport only refers to it."""

    def resume_writing(self) -> None:
        """Nothing was held back."""

    def _lose(self, why: str) -> None:
        receiver = self._receiver
        reused = self._uses > 1 and not self._got_bytes
        self.let_go()
        if receiver is not None:
            receiver.upstream_lost(why, reused=reused)

    # What the parser does with it.

    def on_message_begin(self) -> None:
        """Note a second answer behind the first: nobody asked for it, so the connection is out of step."""
        if self._ended:
            self._is_stray = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """Collect a field of the head; trailers, which come after it, are dropped."""
        if self._head is not None:
            return
        if len(name) == 14 and name.lower() == b"content-length":
            self._length = value
        else:
            self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Sort the head; an interim answer (1xx) is nobody's business."""
        status = self._parser.get_status_code()
        if status >= 200 and not self._is_stray:
            if self._headers != self._last_headers:
                self._last_headers = self._headers
                self._last_fields = ResponseFields(self._headers)
            self._head = ResponseHead(status, self._last_fields, self._length)
        self._headers = []

    def on_body(self, body: bytes) -> None:
        """Collect a piece of the body."""
        if not self._is_stray:
            self._parts.append(body)

    def on_message_complete(self) -> None:
        """Note the end of the answer, unless it was an interim one."""
        if self._head is not None and not self._is_stray:
            self._ended = True
            # The parser forgets this as soon as the callback returns, and would then say no to every connection.
            self._keep_alive = self._parser.should_keep_alive()
