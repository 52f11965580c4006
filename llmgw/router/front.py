"""The client's side of the data path: hot requests taken out of uvicorn's own protocol class.

uvicorn's connection class keeps its parser, its flow control, its queue of pipelined requests and its shutdown. What
changes is who answers: a request for a hot route becomes an `Exchange`, driven by callbacks, in the place where uvicorn
would have put its own cycle with a task; every other request goes to the ASGI application as ever. Since both stand in
the same queue, answers leave in the order in which their requests came, whatever kinds they are.

Rules:
1. At most one request of a connection is being answered (`_running`); later ones wait in uvicorn's `pipeline`.
2. `cycle` is the request whose bytes come in, as uvicorn has it; it may be one that waits.
3. Reading goes on while a request is answered, so that a client that leaves is noticed; it stops when what waits
   behind it grows.
4. A connection idle for the keep-alive time closes, at most as much later. The timer is not set anew for each request:
   it looks when it fires.
5. What cannot be read is refused behind the answers of all earlier requests, and is the last of its connection.
6. A head that does not end, and a body that does not go on, are waited for so long and no longer. One timer of the
   connection looks now and then; nothing is done for each request.
7. When the server ends, requests under way and those that are on their way already are answered, each as the last of
   its connection. Those that its deadline finds unanswered are told so.

uvicorn is pinned: this leans on names of its class that are no published interface.
"""

import re
from collections import deque
from collections.abc import Mapping
from typing import Any, ClassVar

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from llmgw.core.routing.openai import Refused
from llmgw.core.routing.table import CHAT, COMPLETIONS, EMBEDDINGS
from llmgw.router.dispatch import Dispatcher, Exchange
from llmgw.router.errors import refusal_answer, shutting_down
from llmgw.router.proxy import Header, RequestHead

HOT_ROUTES = {b"/v1/" + task.encode(): task for task in (CHAT, COMPLETIONS, EMBEDDINGS)}
MOST_HEAD_BYTES = 64 * 1024
MOST_WAITING = 8
MOST_WAITING_BYTES = 64 * 1024
WRITE_HIGH_BYTES = 128 * 1024
"""What a client may leave untaken before its engine is no longer read; one more read may come on top."""
_ORIGIN = re.compile(rb"[A-Za-z][A-Za-z0-9+.-]*://[^/?#]*")
_NO_HEAD = RequestHead(())
_WISH_TO_UPGRADE = (b"upgrade", b"connection", b"http2-settings")
ON_ITS_WAY_S = 1.0
"""How long an idle connection stays open when the server ends, for a request that was sent before."""
LOOK_EVERY_S = 10.0
HEAD_S = 30.0
"""How long a connection may take to bring the head of a request; at most one look more."""
BODY_S = 60.0
"""How long a body may bring next to nothing; at most one look more."""
LEAST_BODY_BYTES = 1024
"""A body that brings less in BODY_S, and does not end, holds its connection for nothing."""
LINGER_S = 2.0
"""How long bytes of a refused request are thrown away, so that a client which still sends gets to read its answer."""


class _HeadTooLarge(Exception):
    """Raised through the parser, which has no other way to stop in the middle of what it was given."""


class Front(HttpToolsProtocol):
    """One client connection; `dispatcher` is set by the subclass that a server is given.

    A subclass without `hot_routes` hands every request to the application, and keeps all limits.
    """

    dispatcher: ClassVar[Dispatcher]
    hot_routes: ClassVar[Mapping[bytes, str]] = HOT_ROUTES
    # An Exchange stands in uvicorn's place for a cycle; it has the two attributes that are asked of one.
    cycle: Any
    pipeline: deque[tuple[Any, Any]]
    # uvicorn's attributes fill a dictionary to its brim; ours would double it for every open stream.
    __slots__ = (
        "_answered",
        "_answered_before",
        "_awaited",
        "_awaited_since",
        "_body_bytes",
        "_ending",
        "_fields",
        "_head",
        "_head_bytes",
        "_in_head",
        "_is_long_read",
        "_is_read_again",
        "_last_words",
        "_length",
        "_lingering",
        "_look_timer",
        "_running",
        "_starting_next",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.url = b""
        self._running: Any = None
        self._starting_next = False
        self._in_head = False
        self._is_read_again = False
        self._head_bytes: int | None = None
        self._length: bytes | None = None
        self._fields: list[Header] = []
        self._head = _NO_HEAD
        self._answered = 0
        self._answered_before = 0
        self._is_long_read = False
        self._last_words = b""
        self._lingering = False
        self._ending = False
        self._body_bytes = 0
        self._awaited: tuple[int, ...] | None = None
        self._awaited_since = 0.0
        self._look_timer: Any = None

    # What the event loop does with it.

    def connection_made(self, transport: Any) -> None:
        """Begin."""
        super().connection_made(transport)
        self.look()
        transport.set_write_buffer_limits(high=WRITE_HIGH_BYTES)

    def data_received(self, data: bytes) -> None:
        """Work off one read."""
        self._is_long_read = len(data) > MOST_HEAD_BYTES
        rest: bytes | memoryview | None = data
        # A loop and not a recursion: a read may bring a long row of requests that are read again.
        while rest and not self._lingering and not self._last_words:
            rest = self._feed(rest)
        cycle = self.cycle
        if self._in_head:
            self._bound_head(len(data))
        elif isinstance(cycle, Exchange) and cycle.arrival.refusal is not None:
            cycle.refuse_early()

    def _feed(self, data: bytes | memoryview) -> memoryview | None:
        """Give bytes to the parser.

        Returns:
            What it left unread, or None.
        """
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            return self._upgraded(memoryview(data)[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            # A fault of a callback, such as a target that is no URL, stands behind the parser's own words.
            self._unreadable(error.__context__ or error)
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        """End whatever is under way for this client."""
        running, self._running = self._running, None
        self.pipeline.clear()
        self._unset_timers()
        if isinstance(running, Exchange):
            running.client_left()
        elif running is not None and running is not self.cycle:
            # uvicorn tells only the latest request; an earlier one that still runs must learn of it as well.
            running.disconnected = True
            running.message_event.set()
        if isinstance(self.cycle, Exchange):
            self.cycle = None
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Stop what writes to this client."""
        super().pause_writing()
        if isinstance(self._running, Exchange):
            self._running.pause()

    def resume_writing(self) -> None:
        """Go on."""
        super().resume_writing()
        if isinstance(self._running, Exchange):
            self._running.resume()

    # What the parser does with it.

    def on_message_begin(self) -> None:
        """Begin a request, of which kind is not known yet."""
        self.url = b""
        self.headers = []
        self._length = None
        self._in_head = True
        self._is_read_again = False
        self._head_bytes = None

    def on_header(self, name: bytes, value: bytes) -> None:
        """Collect a field of the head; trailers, which come after the body, are dropped."""
        if not self._in_head:
            return
        if len(name) == 14 and name.lower() == b"content-length":
            self._length = value
        else:
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Decide who answers: the data path or the application."""
        self._in_head = False
        if self._is_long_read or self._head_bytes is not None:
            self._measure_head()
        parser = self.parser
        upgrade = parser.should_upgrade()
        if upgrade and not self._wants_websocket():
            # A wish for a protocol we do not speak (h2c, from some clients always) is not granted; see _upgraded.
            self._is_read_again = True
            return
        task = None if upgrade else self._hot_task()
        if task is None:
            self._hand_over()
            return
        if self.headers != self._fields:
            self._fields = self.headers
            self._head = RequestHead(self.headers)
        http_1_0 = parser.get_http_version() == "1.0"
        exchange = Exchange(
            self.dispatcher,
            self,
            task,
            self.url if self.url[:1] == b"/" else _without_origin(self.url),
            self._head,
            self._length,
            http_1_0=http_1_0,
            keep_alive=not http_1_0 and not self._ending and parser.should_keep_alive(),
        )
        before = self.cycle
        self.cycle = exchange
        if before is None or before.response_complete:
            self._running = exchange
            exchange.begin()
        else:
            self.pipeline.appendleft((exchange, self.app))
            if len(self.pipeline) >= MOST_WAITING:
                self.flow.pause_reading()

    def _wants_websocket(self) -> bool:
        fields, self.headers = self.headers, [(name.lower(), value) for name, value in self.headers]
        wanted = self._should_upgrade()
        self.headers = fields
        return wanted

    def _hot_task(self) -> str | None:
        if self.parser.get_method() != b"POST":
            return None
        url = self.url
        routes = self.hot_routes
        return routes.get(url) or routes.get(_without_origin(url).partition(b"?")[0])

    def _hand_over(self) -> None:
        url, headers, length = self.url, self.headers, self._length
        super().on_message_begin()
        self.url = _without_origin(url)
        for name, value in headers:
            super().on_header(name, value)
        if length is not None:
            super().on_header(b"content-length", length)
        super().on_headers_complete()
        if self._ending and self.cycle is not None:
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body of the request that comes in."""
        cycle = self.cycle
        if not isinstance(cycle, Exchange):
            self._body_bytes += len(body)
            super().on_body(body)
            return
        cycle.arrival.take(body)
        if cycle is not self._running and len(cycle.arrival.body) > MOST_WAITING_BYTES:
            self.flow.pause_reading()

    def on_message_complete(self) -> None:
        """Note that the request that comes in is whole."""
        cycle = self.cycle
        if self._is_read_again:
            return
        if isinstance(cycle, Exchange):
            cycle.body_complete()
        else:
            super().on_message_complete()

    def _upgraded(self, rest: memoryview) -> memoryview | None:
        if not self._is_read_again:
            self._unset_timers()
            self.handle_websocket_upgrade()
            return None
        method, version = self.parser.get_method(), self.parser.get_http_version().encode()
        if method == b"CONNECT":
            # It asks for another protocol by its name alone, so reading it again would not end.
            why = "CONNECT is not taken: this is no proxy"
            self._refuse_connection(Refused(status=405, code="method_not_allowed", message=why))
            return None
        # The parser takes everything behind such a head for the other protocol. The head is read again without the
        # wish, and what follows it is read as the body that it is.
        lines = [b"%b %b HTTP/%b" % (method, self.url, version)]
        lines += [b"%b: %b" % header for header in self.headers if header[0].lower() not in _WISH_TO_UPGRADE]
        if self._length is not None:
            lines.append(b"content-length: " + self._length)
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._feed(b"\r\n".join([*lines, b"", b""]))
        return rest

    # What the answers tell.

    def is_slow(self) -> bool:
        """Tell whether the client has much to take yet."""
        return self.flow.write_paused

    def answered(self, *, keep_alive: bool, linger: bool) -> None:
        """Go on to the next request, or close."""
        if linger:
            self._linger()
        elif not keep_alive:
            self.transport.close()
        self.on_response_complete()

    def on_response_complete(self) -> None:
        """Start the requests that waited, until one of them takes its time."""
        self.server_state.total_requests += 1
        self._running = None
        if self.transport.is_closing() or self._lingering:
            return
        self._answered += 1
        if self.timeout_keep_alive_task is None:
            self._wait_idle()
        self.flow.resume_reading()
        if self._starting_next:
            return
        # A loop and not a recursion: a row of requests that are refused at once would be as deep as it is long.
        self._starting_next = True
        while self.pipeline and self._running is None and not self.transport.is_closing():
            self._start_asgi_task(*self.pipeline.pop())
        self._starting_next = False
        if self._last_words and self._running is None and not self.transport.is_closing():
            self._say_last_words()

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        self._running = cycle
        if isinstance(cycle, Exchange):
            cycle.begin()
        else:
            super()._start_asgi_task(cycle, app)

    # The end of the server.

    def shutdown(self) -> None:
        """Close when nothing is under way any more; called once, when the server takes no new connection."""
        self._ending = True
        if self._running is not None or self.pipeline:
            self.cycle.keep_alive = False
        else:
            # The client may have sent a request that nobody has read yet; closing now would lose it.
            self.loop.call_later(ON_ITS_WAY_S, self._close_idle)

    def _close_idle(self) -> None:
        # A request whose head never ends is cut by the server's own deadline.
        if self._running is None and not self._in_head:
            self.transport.close()

    def end_now(self) -> None:
        """Tell the client that what is under way is not done in time, and close; what cannot be told is cut."""
        running = self._running
        if isinstance(running, Exchange):
            running.end_unfinished()
            return
        request_id = self.dispatcher.new_request_id()
        if running is not None:
            self._refuse_application(running, shutting_down(request_id.decode()), request_id)
        elif self._in_head:
            self._refuse_connection(shutting_down(request_id.decode()), request_id)
        elif not self._lingering:
            self.transport.close()

    # Idleness.

    def _unset_keepalive_if_required(self) -> None:
        if self.timeout_keep_alive_task is not None:
            self.timeout_keep_alive_task.cancel()
            self.timeout_keep_alive_task = None

    def _wait_idle(self) -> None:
        self._answered_before = self._answered
        self.timeout_keep_alive_task = self.loop.call_later(
            self.timeout_keep_alive, self.timeout_keep_alive_handler
        )

    def timeout_keep_alive_handler(self) -> None:
        """Close the connection when nothing was asked for the whole time; look again later when something was."""
        self.timeout_keep_alive_task = None
        if self._running is not None or self._in_head:
            # The end of the request sets the timer again.
            return
        if self._answered != self._answered_before:
            self._wait_idle()
        else:
            super().timeout_keep_alive_handler()

    def _unset_timers(self) -> None:
        self._unset_keepalive_if_required()
        if self._look_timer is not None:
            self._look_timer.cancel()
            self._look_timer = None

    # Requests that do not go on.

    def look(self) -> None:
        """End the connection when what the client owes has not come for too long; look again later."""
        now = self.dispatcher.clock.now()
        awaited = self._find_awaited()
        if awaited is None or _has_gone_on(self._awaited, awaited):
            self._awaited, self._awaited_since = awaited, now
        elif now - self._awaited_since >= (HEAD_S if len(awaited) == 1 else BODY_S):
            self._look_timer = None
            self._give_up(awaited)
            return
        self._look_timer = self.loop.call_later(LOOK_EVERY_S, self.look)

    def _find_awaited(self) -> tuple[int, ...] | None:
        """Name what the client owes: the head of which request, or the rest of which body; None for nothing."""
        cycle, running = self.cycle, self._running
        if self._lingering:
            return None
        if running is None:
            # An idle connection owes nothing, unless it never asked for anything.
            return (self._answered,) if self._in_head or cycle is None else None
        if running is not cycle or not _is_arriving(cycle) or self.flow.read_paused:
            return None
        return (self._answered, len(cycle.arrival.body) if isinstance(cycle, Exchange) else self._body_bytes)

    def _give_up(self, awaited: tuple[int, ...]) -> None:
        if len(awaited) > 1:
            why = (
                f"less than {LEAST_BODY_BYTES} bytes of the request's body have come in {BODY_S:g} s, and not its end; "
                "send it without such pauses"
            )
        elif self._in_head:
            why = f"the head of the request was not whole within {HEAD_S:g} s; send it in one piece"
        else:
            self.transport.close()
            return
        self._refuse_connection(Refused(status=408, code="request_timeout", message=why))

    # Requests that cannot be read at all.

    def _bound_head(self, nbytes: int) -> None:
        # What stands before the head in the read that began it is not the head's, so that read does not count.
        self._head_bytes = 0 if self._head_bytes is None else self._head_bytes + nbytes
        if self._head_bytes > MOST_HEAD_BYTES:
            self._unreadable(_HeadTooLarge())

    def _measure_head(self) -> None:
        # The separators of a field are counted too, so that what fits here fits in however many reads it comes.
        if len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers) > MOST_HEAD_BYTES:
            raise _HeadTooLarge

    def _unreadable(self, error: BaseException) -> None:
        if isinstance(error, _HeadTooLarge):
            why = f"the request cannot be read: its head is longer than {MOST_HEAD_BYTES} bytes"
            self._refuse_connection(Refused(status=431, code="head_too_large", message=why))
        else:
            why = f"the request cannot be read: it is not HTTP/1.1 ({error})"
            self._refuse_connection(Refused(status=400, code="invalid_http", message=why))

    def _refuse_connection(self, refused: Refused, request_id: bytes | None = None) -> None:
        """Refuse the request that comes in, and read nothing more of this connection."""
        running, cycle = self._running, self.cycle
        self._in_head = False
        request_id = request_id or self.dispatcher.new_request_id()
        if running is not None and running is cycle and _is_arriving(cycle):
            self._refuse_arriving(cycle, refused, request_id)
            return
        if _is_arriving(cycle):
            if cycle.response_complete:
                # It was answered before it was whole, and has no use for a second answer.
                self._linger()
                return
            # Its turn has not come, and when it comes the refusal is said in its place.
            self.pipeline.popleft()
        stamps = b"x-request-id: %b\r\n" % request_id
        self._last_words = refusal_answer(refused, stamps, keep_alive=False)
        if running is None:
            self._say_last_words()

    def _refuse_arriving(self, cycle: Any, refused: Refused, request_id: bytes) -> None:
        if isinstance(cycle, Exchange):
            cycle.arrival.refusal = cycle.arrival.refusal or refused
            cycle.refuse_early()
        else:
            self._refuse_application(cycle, refused, request_id)

    def _refuse_application(self, cycle: Any, refused: Refused, request_id: bytes) -> None:
        """Answer in the application's place, and let it believe that the client has left."""
        if cycle.response_started:
            # Another answer in the middle of one would be taken for a part of it.
            self.transport.abort()
        else:
            cycle.disconnected = True
            cycle.message_event.set()
            stamps = b"x-request-id: %b\r\n" % request_id
            self.transport.write(refusal_answer(refused, stamps, keep_alive=False))
            self._linger()

    def _say_last_words(self) -> None:
        words, self._last_words = self._last_words, b""
        self.transport.write(words)
        self._linger()

    def _linger(self) -> None:
        self._lingering = True
        self.loop.call_later(LINGER_S, self.transport.close)


def _is_arriving(cycle: Any) -> bool:
    """Tell whether some of a request's body is still to come."""
    return (
        not cycle.arrival.is_complete
        if isinstance(cycle, Exchange)
        else cycle is not None and cycle.more_body
    )


def _has_gone_on(before: tuple[int, ...] | None, after: tuple[int, ...]) -> bool:
    """Tell whether a client has brought enough of what it owes, or owes something else by now."""
    if before is None or len(before) != len(after) or before[0] != after[0]:
        return True
    return len(after) > 1 and after[1] - before[1] >= LEAST_BODY_BYTES


def _without_origin(url: bytes) -> bytes:
    """Give path and query of a request target, which may be written with scheme and host in front."""
    if url[:1] == b"/":
        return url
    origin = _ORIGIN.match(url)
    if origin is None:
        return url
    after = url[origin.end() :]
    return after if after[:1] == b"/" else b"/" + after
