"""What passes between a client and an engine: which header fields, and how a body is framed.

Bodies pass byte for byte. Their framing does not: an engine's chunks are framed anew, one chunk and one write for
what one read brought, so that neither side can confuse the other about where a message ends.

Hop-by-hop fields, and those that `Connection` names, stop here in both directions. The client's credentials stop here.
"""

import re
from collections.abc import Iterable
from typing import Protocol

from llmgw.core.routing.openai import Refused, error_event
from llmgw.core.routing.sse import START, may_begin_event, says_done, tail_after
from llmgw.router.errors import status_line

Header = tuple[bytes, bytes]

_HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
_NOT_UPSTREAM = _HOP_BY_HOP | {
    # Whoever reads the engine's log must not find the clients' keys there.
    b"authorization",
    b"x-api-key",
    b"cookie",
    # These are written anew for the connection to the engine.
    b"accept-encoding",
    b"content-encoding",
    b"content-length",
    b"expect",
    b"host",
    b"x-request-id",
}
_NOT_DOWNSTREAM = _HOP_BY_HOP | {
    b"content-length",
    b"x-request-id",
    b"x-llmgw-replica",
    b"x-llmgw-model",
}
# Proxies between here and the client would otherwise collect events before they pass them on.
_UNBUFFERED = ((b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no"))
_PLAIN_CONNECTION = frozenset({b"", b"keep-alive", b"close"})
_SANE_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:/+=-]{1,128}\Z")
_BODILESS = frozenset({204, 304})


class RequestHead:
    """A client's header fields, sorted into those the router reads and those that pass.

    A client repeats most of them with every request on a connection, so a head is made once and used while they stay
    the same; `Content-Length`, which does not, is no part of it.

    Attributes:
        authorization: value of that field, or None.
        coding: value of `Content-Encoding`, or None.
        request_id: the client's own id of the request, where it is fit for a header and a log line.
        expects_continue: the client waits for `100 Continue` before it sends the body.
        passing: header lines for the engine, each with its line end.
    """

    __slots__ = ("authorization", "coding", "expects_continue", "passing", "request_id")

    def __init__(self, headers: Iterable[Header]) -> None:
        """Sort `headers`, whose names are in any case."""
        read: dict[bytes, bytes] = {}
        passing = []
        for field, value in headers:
            name = field.lower()
            if name not in _NOT_UPSTREAM:
                passing.append((name, value))
            elif name == b"connection":
                read[name] = read[name] + b"," + value if name in read else value
            else:
                # Of a field that may stand only once the first counts; none of them is passed on.
                read.setdefault(name, value)
        self.authorization = read.get(b"authorization")
        self.coding = read.get(b"content-encoding")
        request_id = read.get(b"x-request-id", b"")
        self.request_id = request_id if _SANE_REQUEST_ID.match(request_id) else None
        self.expects_continue = read.get(b"expect", b"").lower() == b"100-continue"
        self.passing = _lines(_without_named(passing, read.get(b"connection", b"")))


def _lines(headers: Iterable[Header]) -> bytes:
    return b"".join([b"%b: %b\r\n" % header for header in headers])


def _without_named(headers: list[Header], connection: bytes) -> list[Header]:
    if connection.lower() in _PLAIN_CONNECTION:
        return headers
    named = {name.strip().lower() for name in connection.split(b",")}
    return [header for header in headers if header[0] not in named]


def request_head(target: bytes, host: bytes, passing: bytes, request_id: bytes, length: int) -> bytes:
    """Write the head of a request to an engine.

    Args:
        target: path and query, as the client wrote them.
        host: value of the `Host` field.
        passing: header lines of the client's request that pass.
        length: bytes of the body.
    """
    return (
        b"POST %b HTTP/1.1\r\nhost: %b\r\n%baccept-encoding: identity\r\nx-request-id: %b\r\ncontent-length: %d\r\n\r\n"
        % (target, host, passing, request_id, length)
    )


class ResponseFields:
    """An engine's header fields without `Content-Length`; they stay the same from answer to answer for the most part.

    Attributes:
        is_stream: the body is an event stream.
        is_chunked: the body comes in chunks.
        passing: header lines for the client, each with its line end.
    """

    __slots__ = ("is_chunked", "is_stream", "passing")

    def __init__(self, headers: Iterable[Header]) -> None:
        """Sort `headers`, whose names are in any case."""
        self.is_stream = self.is_chunked = False
        connection = b""
        passing: list[Header] = []
        for field, value in headers:
            name = field.lower()
            if name not in _NOT_DOWNSTREAM:
                passing.append((name, value))
                if name == b"content-type":
                    self.is_stream = value[:17].lower() == b"text/event-stream"
            elif name == b"connection":
                connection += b"," + value if connection else value
            elif name == b"transfer-encoding":
                self.is_chunked = True
        if self.is_stream:
            present = {header[0] for header in passing}
            passing += [header for header in _UNBUFFERED if header[0] not in present]
        self.passing = _lines(_without_named(passing, connection))


class ResponseHead:
    """The head of an engine's answer.

    Attributes:
        length: value of `Content-Length`, or None.
        until_close: only the end of the connection ends the body.
    """

    __slots__ = ("fields", "length", "status", "until_close")

    def __init__(self, status: int, fields: ResponseFields, length: bytes | None) -> None:
        self.status = status
        self.fields = fields
        self.length = length
        self.until_close = length is None and not fields.is_chunked and status not in _BODILESS


class Writer(Protocol):
    """Whatever bytes for the client are written to."""

    def write(self, data: bytes) -> None:
        """Send `data` behind what was written before."""


class Relay:
    """Hands the body of one answer to the client as it comes.

    It begins with the first bytes of the body (or its end), because until then nothing has been shown to the client
    and another endpoint can still answer.

    Attributes:
        can_follow: whether the connection can carry another answer after this one.
        is_done: the stream has said `data: [DONE]`.
    """

    __slots__ = (
        "_chunked",
        "_head",
        "_is_stream",
        "_promised",
        "_tail",
        "_transport",
        "can_follow",
        "is_done",
    )

    def __init__(
        self, transport: Writer, head: ResponseHead, stamps: bytes, *, http_1_0: bool, keep_alive: bool
    ) -> None:
        """Prepare to answer with `head`.

        Args:
            stamps: header lines that every answer to this request carries.
            http_1_0: the client does not know chunks, so the end of the connection ends a body of unknown length.
            keep_alive: whether the client wants to use the connection again.
        """
        self._transport = transport
        self._is_stream = head.fields.is_stream
        self._tail = START
        self.is_done = False
        bodiless = head.status in _BODILESS
        self._promised = head.length is not None
        self._chunked = not self._promised and not http_1_0 and not bodiless
        self.can_follow = keep_alive and (self._chunked or self._promised or bodiless)
        if self._chunked:
            framing = b"transfer-encoding: chunked\r\n"
        elif head.length is not None:
            framing = b"content-length: %b\r\n" % head.length
        else:
            framing = b""
        if not self.can_follow:
            framing += b"connection: close\r\n"
        self._head = b"%b%b%b%b\r\n" % (status_line(head.status), head.fields.passing, stamps, framing)

    def pass_on(self, parts: list[bytes], ended: bool) -> None:
        """Write what one read of the engine brought, in one write.

        Args:
            parts: the pieces of the body in it.
            ended: whether the body ended with it.
        """
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        if self._is_stream and data:
            self.is_done = self.is_done or says_done(self._tail, data)
            self._tail = tail_after(self._tail, data)
        head, self._head = self._head, b""
        if self._chunked:
            data = self._framed(data, ended)
        if head or data:
            self._transport.write(head + data if head else data)

    def _framed(self, data: bytes, ended: bool) -> bytes:
        if not data:
            return b"0\r\n\r\n" if ended else b""
        if ended:
            return b"%x\r\n%b\r\n0\r\n\r\n" % (len(data), data)
        return b"%x\r\n%b\r\n" % (len(data), data)

    def break_off(self, refused: Refused) -> bool:
        """Tell the client of a stream that the engine died, where the body's framing leaves room for it.

        Returns:
            Whether it was told; when not, only cutting the connection tells that the answer is not whole.
        """
        if not self._is_stream or self._promised:
            return False
        event = error_event(refused)
        if not may_begin_event(self._tail):
            event = b"\n\n" + event
        self.pass_on([event], ended=True)
        return True
