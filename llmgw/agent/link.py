"""The agent's end of the link: dials out, registers, reports, takes commands, and dials again for ever.

1. Every connection begins with Register; nothing else is sent before the server's Welcome.
2. The loop that receives never waits for work or for sending: commands are begun, answers go to the outbox.
3. A frame that cannot be read, or whose handling fails, is logged and dropped, and the link lives.
4. A numbered frame is acknowledged when it was taken; an Ack with an error says why it was not.
5. All addresses are tried in turn; between rounds there is a wait with full jitter, which a connection makes
   shorter again the longer it lasts (core/backoff.py).
6. A server that answers no ping for DEAD_AFTER_S is gone.
"""

import asyncio
import contextlib
import logging
import math
import random
import secrets
from collections.abc import Awaitable, Callable

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, WebSocketException

from llmgw.agent.commands import Answer, Command
from llmgw.agent.complaints import Complaints
from llmgw.agent.discovery.route import Server
from llmgw.agent.outbox import Outbox, Reply
from llmgw.agent.unreachable import why_unreachable
from llmgw.core.backoff import forgiven, full_jitter
from llmgw.core.errors import FrameError
from llmgw.core.fleet.shards import ShardState
from llmgw.core.fleet.snapshot import Introduction
from llmgw.runtime.clock import Clock
from llmgw.wire.codec import LARGEST_BYTES, UnknownFrame, encode, from_server
from llmgw.wire.frames import (
    PROTOCOL,
    Ack,
    AskRegister,
    Heartbeat,
    Register,
    ShardStatus,
    Welcome,
)
from llmgw.wire.session import Link

log = logging.getLogger("llmgw.agent.link")

DEFAULT_HEARTBEAT_S = 5.0
OPEN_LIMIT_S = 10.0
WELCOME_LIMIT_S = 15.0
PING_EVERY_S = 5.0
DEAD_AFTER_S = 15.0


class AgentLink:
    """Owner of the connection to the server."""

    def __init__(
        self,
        servers: tuple[Server, ...],
        *,
        introduce: Callable[[Server], Awaitable[Introduction]],
        shards: Callable[[], tuple[ShardState, ...]],
        heartbeat: Callable[[], Awaitable[Heartbeat]],
        take: Callable[[Command], Answer],
        opened: Callable[[], None] = lambda: None,
        clock: Clock,
        share: Callable[[], float] = random.random,
    ) -> None:
        """Take what the link carries.

        Args:
            servers: addresses of the one active server.
            introduce: describes the node to the address that was reached, without its shards.
            shards: lists the shards at this moment.
            heartbeat: makes one heartbeat.
            take: begins what a command asks for; it does not wait. What is replied later comes to `reply`.
            opened: told of every new connection: what was asked over an earlier one is moot.
            share: gives random numbers in [0, 1) for the jitter.
        """
        self._servers = servers
        self._introduce = introduce
        self._shards = shards
        self._heartbeat = heartbeat
        self._take = take
        self._opened = opened
        self._clock = clock
        self._share = share
        self._session = Link(dead_after_s=DEAD_AFTER_S, now=clock.now())
        self._outbox = Outbox()
        self._complaints = Complaints(log)
        self._unknown = Complaints(log, every_s=None)
        self._welcome = asyncio.Event()
        self._asked = asyncio.Event()
        self._heartbeat_s = DEFAULT_HEARTBEAT_S
        self._failed = 0
        self._welcomed_now: float | None = None
        self._instance = secrets.token_hex(8)

    def report(self, state: ShardState) -> None:
        """Tell the server of a transition, as soon as there is a connection."""
        self._outbox.report(ShardStatus(state=state))

    def introduce_again(self) -> None:
        """Register on the live connection too: what this node is has changed. The next connection begins so anyway."""
        self._asked.set()

    def reply(self, frame: Reply) -> None:
        """Answer a request of the present connection, after all that is more urgent."""
        if not self._outbox.reply(frame):
            self._complain("replies", "too many replies wait for the server; one was dropped")

    async def run(self) -> None:
        """Keep a connection for ever; only cancelling ends it."""
        while True:
            for server in self._servers:
                await self._attempt(server)
            wait_s = full_jitter(self._failed, self._share())
            self._failed += 1
            await asyncio.sleep(wait_s)

    async def _attempt(self, server: Server) -> None:
        self._welcomed_now = None
        try:
            async with self._connect(server) as connection:
                await self._converse(connection, server)
            # Only a server that refuses this agent says why it hangs up.
            said = f": {connection.close_reason}" if connection.close_reason else ""
        except (OSError, TimeoutError, UnicodeError, WebSocketException) as error:
            why = why_unreachable(error)
            self._complain(
                f"away {server}", f"server {server} cannot be reached: {why}; trying again for ever"
            )
        except Exception:  # the border of an owned task: a fault of one connection ends that one
            log.exception("the connection to %s failed", server)
        else:
            self._complain(f"ended {server}", f"the connection to {server} ended{said}; dialling again")
        if self._welcomed_now is not None:
            self._failed = forgiven(self._failed, self._clock.now() - self._welcomed_now)

    def _connect(self, server: Server) -> connect:
        return connect(
            server.url,
            open_timeout=OPEN_LIMIT_S,
            ping_interval=PING_EVERY_S,
            ping_timeout=DEAD_AFTER_S - PING_EVERY_S,
            close_timeout=1,
            max_size=LARGEST_BYTES,
            # Frames are compressed already, and a proxy of the surroundings is not the way to the server.
            compression=None,
            proxy=None,
        )

    async def _converse(self, connection: ClientConnection, server: Server) -> None:
        """Live with one connection until it ends."""
        # What is sent and numbered here are transitions only, and the new Register makes them all moot.
        self._session.reopen(self._clock.now())
        self._outbox.reopen()
        self._opened()
        self._welcome.clear()
        self._asked.clear()
        await self._register(server)
        tasks = [
            asyncio.create_task(self._receive(connection, server)),
            asyncio.create_task(self._send(connection)),
            asyncio.create_task(self._beat()),
            asyncio.create_task(self._register_when_asked(server)),
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _register(self, server: Server) -> None:
        said = await self._introduce(server)
        # The shards are listed in the very step that clears the reports, so that none falls between.
        self._outbox.register(
            Register(
                protocol=PROTOCOL,
                said=msgspec.structs.replace(said, shards=self._shards()),
                instance=self._instance,
            )
        )

    # sending

    async def _send(self, connection: ClientConnection) -> None:
        with contextlib.suppress(ConnectionClosed):
            while True:
                frame = await self._outbox.next()
                try:
                    data = encode(self._session.send(frame) if isinstance(frame, ShardStatus) else frame)
                except FrameError as error:
                    log.error("not sent: %s", error)
                    continue
                await connection.send(data)

    async def _register_when_asked(self, server: Server) -> None:
        while True:
            await self._asked.wait()
            self._asked.clear()
            await self._register(server)

    async def _beat(self) -> None:
        try:
            async with asyncio.timeout(WELCOME_LIMIT_S):
                await self._welcome.wait()
        except TimeoutError as error:
            raise TimeoutError(f"it did not answer Register within {WELCOME_LIMIT_S:g} s") from error
        while True:
            self._outbox.beat(await self._heartbeat())
            await asyncio.sleep(self._heartbeat_s)

    # receiving

    async def _receive(self, connection: ClientConnection, server: Server) -> None:
        with contextlib.suppress(ConnectionClosed):
            while True:
                data = await connection.recv()
                try:
                    self._heard(data, server)
                except FrameError as error:
                    self._complain("frame", f"server {server} sent {error}; dropped")

    def _heard(self, data: bytes | str, server: Server) -> None:
        if isinstance(data, str):
            raise FrameError("a text message, wanted a binary one")
        frame = from_server(data)
        if isinstance(frame, UnknownFrame):
            words = f"server {server} sent a frame {frame.tag!r} that this version does not know; ignored"
            self._unknown.say(frame.tag, words, self._clock.now())
            return
        received = self._session.receive(frame, self._clock.now())
        if received.error is not None and received.answered is not None:
            self._complain(
                "refused", f"server {server} refused a {type(received.answered).__name__}: {received.error}"
            )
        error = None if received.deliver is None else self._delivered(received.deliver, server)
        if received.ack is not None:
            self._answer(Ack(seq=received.ack, error=error))

    def _delivered(self, frame: Welcome | AskRegister | Command, server: Server) -> str | None:
        """Take one frame; returns why it is refused."""
        if isinstance(frame, Welcome):
            self._welcomed(frame, server)
            return None
        if isinstance(frame, AskRegister):
            self._complain(
                "asked", f"server {server} asks to register again: {frame.reason or 'no reason given'}"
            )
            self._asked.set()
            return None
        try:
            answer = self._take(frame)
        except Exception as error:  # noqa: BLE001 # the border of a frame: its sender gets an answer
            self._complain("handling", f"a {type(frame).__name__} of server {server} failed: {error!r}")
            return f"internal error in the agent: {type(error).__name__}; its log says more"
        return answer.error

    def _welcomed(self, frame: Welcome, server: Server) -> None:
        if not self._welcome.is_set():
            self._welcomed_now = self._clock.now()
            log.info(
                "registered with server %s (version %s, start %d)", server, frame.version or "-", frame.epoch
            )
            if frame.protocol != PROTOCOL:
                log.info("server %s speaks protocol %d, this agent %d", server, frame.protocol, PROTOCOL)
        wanted_s = frame.heartbeat_s
        self._heartbeat_s = DEFAULT_HEARTBEAT_S if math.isnan(wanted_s) else min(max(wanted_s, 0.1), 60.0)
        self._welcome.set()
        self._outbox.greeted()

    def _answer(self, frame: Ack) -> None:
        if not self._outbox.answer(frame):
            self._complain("answers", "too many answers wait for the server; one was dropped")

    def _complain(self, kind: str, message: str) -> None:
        self._complaints.say(kind, message, self._clock.now())
