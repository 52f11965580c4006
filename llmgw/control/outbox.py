"""What waits to be sent to one agent: bounded, so that an agent that does not read blocks nobody but itself."""

import asyncio

import msgspec
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

_LONGEST_REASON = 120
"""Bytes; a close frame has room for 123."""


class _Goodbye(msgspec.Struct, frozen=True):
    """The last that is sent: a close with its code and reason."""

    code: int
    reason: str


class Outbox:
    """Messages in their order; owned by the conversation of one connection, which runs `send_all`."""

    def __init__(self, connection: ServerConnection, *, most: int) -> None:
        """Take the connection and the most messages that may wait; one more cuts the connection."""
        self._connection = connection
        self._waiting: asyncio.Queue[bytes | _Goodbye] = asyncio.Queue(maxsize=most)
        self._cut = False

    def post(self, data: bytes) -> bool:
        """Let a message wait to be sent; False when the connection is cut, now or before.

        An agent whose messages pile up has stopped reading. It dials again and registers, and the level that it
        registers with makes up for what was lost.
        """
        if self._cut:
            return False
        try:
            self._waiting.put_nowait(data)
        except asyncio.QueueFull:
            self.cut()
            return False
        return True

    def close(self, code: int, reason: str) -> None:
        """Close the connection with a reason after what waits already, or cut it when too much waits."""
        try:
            self._waiting.put_nowait(
                _Goodbye(code, reason.encode()[:_LONGEST_REASON].decode(errors="ignore"))
            )
        except asyncio.QueueFull:
            self.cut()

    def cut(self) -> None:
        """End the connection without a word."""
        self._cut = True
        self._connection.transport.abort()

    async def send_all(self) -> None:
        """Send what waits, for as long as the connection lives."""
        try:
            while True:
                message = await self._waiting.get()
                if isinstance(message, _Goodbye):
                    await self._connection.close(message.code, message.reason)
                    return
                await self._connection.send(message)
        except ConnectionClosed:
            return
