"""One simulated agent: dials, registers, sends heartbeats, answers pings and commands, and dials again as agents do.

It speaks WebSocket with its own few lines, for a thousand of them share a core with nothing else on it: a client
library would take more time than the server that is measured. Frames are made and read by the codec of llmgw.
"""

import asyncio
import base64
import os
import struct
from collections.abc import Callable
from typing import Any

from fleet.said import heartbeats
from llmgw.core.backoff import forgiven, full_jitter
from llmgw.wire.codec import encode, from_server
from llmgw.wire.frames import Ack, Numbered, Welcome

BINARY, CLOSE, PING, PONG = 0x2, 0x8, 0x9, 0xA
_FINAL, _MASKED = 0x80, 0x80
OPEN_LIMIT_S = 10.0
"""As in agents: a connection that is no WebSocket by then is given up."""


class Counts:
    """What a herd of agents has seen; one for all of them.

    Attributes:
        registered: how many are welcome now.
        last_now: when the latest of them was welcomed (monotonic seconds).
        beats: heartbeats sent.
        held_up: heartbeats that the connection would not take at once: the server reads too slowly.
        lost: connections that ended.
        told: commands that the server gave; a fleet that is as it should be gets none.
    """

    def __init__(self) -> None:
        self.registered = self.beats = self.held_up = self.lost = self.told = 0
        self.last_now = 0.0


class Agent(asyncio.Protocol):
    """Owner of one connection at a time."""

    def __init__(
        self,
        address: tuple[str, int],
        register: bytes,
        counts: Counts,
        share: Callable[[], float],
        *,
        number: int,
    ) -> None:
        """Take what it says.

        Args:
            share: gives random numbers in [0, 1) for the jitter.
            number: which heartbeat is its first.
        """
        self._address = address
        self._register = register
        self._counts = counts
        self._share = share
        self._next_beat = number
        self._loop = asyncio.get_running_loop()
        self._failed = 0
        self._dialling: asyncio.Task[None] | None = None
        self._opening: asyncio.TimerHandle | None = None
        self._beating: asyncio.TimerHandle | None = None
        self._begin()

    def _begin(self) -> None:
        self._transport: Any = None
        self._read = bytearray()
        self._upgraded = self._is_slow = False
        self._welcomed_now: float | None = None
        self._heartbeat_s = 5.0

    def dial(self) -> None:
        """Connect, again and again until it works."""
        self._dialling = self._loop.create_task(self._connect())

    def end(self) -> None:
        """Go away without a word."""
        if self._dialling is not None:
            self._dialling.cancel()
        self._failed = -1
        if self._transport is not None:
            self._transport.abort()

    async def _connect(self) -> None:
        while True:
            try:
                await self._loop.create_connection(lambda: self, *self._address)
            except OSError:
                await asyncio.sleep(full_jitter(self._failed, self._share()))
                self._failed += 1
            else:
                return

    # what the loop does with it

    # A loop of uvloop has transports that asyncio's classes do not know of.
    def connection_made(self, transport: Any) -> None:
        """Ask for a WebSocket."""
        self._begin()
        self._transport = transport
        self._opening = self._loop.call_later(OPEN_LIMIT_S, transport.abort)
        key = base64.b64encode(os.urandom(16)).decode()
        host, port = self._address
        transport.write(
            f"GET / HTTP/1.1\r\nHost: {host}:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )

    def data_received(self, data: bytes) -> None:
        """Take what the server says."""
        self._read += data
        if not self._upgraded:
            end = self._read.find(b"\r\n\r\n")
            if end < 0:
                return
            if not self._read.startswith(b"HTTP/1.1 101 "):
                raise ValueError(f"no WebSocket: {bytes(self._read[:200])!r}")
            del self._read[: end + 4]
            self._upgraded = True
            if self._opening is not None:
                self._opening.cancel()
            self._send(BINARY, self._register)
        while (frame := _first_frame(self._read)) is not None:
            self._heard(*frame)

    def connection_lost(self, exc: Exception | None) -> None:
        """Dial again after a while, unless it was told to end."""
        for timer in (self._opening, self._beating):
            if timer is not None:
                timer.cancel()
        self._transport = None
        lasted_s = 0.0
        if self._welcomed_now is not None:
            self._counts.registered -= 1
            lasted_s = self._loop.time() - self._welcomed_now
        if self._failed < 0:
            return
        self._counts.lost += 1
        self._failed = forgiven(self._failed, lasted_s)
        wait_s = full_jitter(self._failed, self._share())
        self._failed += 1
        self._loop.call_later(wait_s, self.dial)

    def pause_writing(self) -> None:
        """Note that the server takes its bytes too slowly."""
        self._is_slow = True

    def resume_writing(self) -> None:
        """Note that it takes them again."""
        self._is_slow = False

    # frames

    def _heard(self, opcode: int, payload: bytes) -> None:
        if opcode == PING:
            self._send(PONG, payload)
        elif opcode == CLOSE and self._transport is not None:
            self._send(CLOSE, payload)
            self._transport.close()
        elif opcode == BINARY:
            frame = from_server(payload)
            if isinstance(frame, Welcome):
                self._welcomed(frame)
            elif isinstance(frame, Numbered):
                self._counts.told += 1
                self._send(BINARY, encode(Ack(seq=frame.seq)))

    def _welcomed(self, frame: Welcome) -> None:
        if self._welcomed_now is None:
            self._welcomed_now = self._counts.last_now = self._loop.time()
            self._counts.registered += 1
            self._heartbeat_s = frame.heartbeat_s
            self._beat()

    def _beat(self) -> None:
        self._beating = self._loop.call_later(self._heartbeat_s, self._beat)
        if self._is_slow:
            self._counts.held_up += 1
            return
        said = heartbeats()
        self._next_beat = (self._next_beat + 1) % len(said)
        self._send(BINARY, said[self._next_beat])
        self._counts.beats += 1

    def _send(self, opcode: int, payload: bytes) -> None:
        # A mask of zeros is a mask too, and leaves the bytes as they are.
        if len(payload) < 126:
            head = bytes([_FINAL | opcode, _MASKED | len(payload)])
        elif len(payload) < 1 << 16:
            head = struct.pack("!BBH", _FINAL | opcode, _MASKED | 126, len(payload))
        else:
            head = struct.pack("!BBQ", _FINAL | opcode, _MASKED | 127, len(payload))
        self._transport.write(head + bytes(4) + payload)


def _first_frame(read: bytearray) -> tuple[int, bytes] | None:
    """Take the first whole frame out of what a server sent; None when it is not whole yet."""
    if len(read) < 2:
        return None
    length, begins = read[1] & 0x7F, 2
    if length == 126:
        length, begins = int.from_bytes(read[2:4]), 4
    elif length == 127:
        length, begins = int.from_bytes(read[2:10]), 10
    if len(read) < begins + length:
        return None
    opcode, payload = read[0] & 0xF, bytes(read[begins : begins + length])
    del read[: begins + length]
    return opcode, payload
