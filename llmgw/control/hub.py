"""Where agents connect: one conversation each, whose frames become observations and to which commands are sent.

Rules:

1. The first frame that counts is Register, within `register_within_s` of connecting; until then everything else is
   dropped and answered once with AskRegister.
2. One connection a node. Connections are numbered as they come; a later one of the same node ends the earlier, and
   an earlier one that registers late is itself ended.
3. Unknown frames are logged once a tag, broken ones a few times a connection; they are dropped, and the link lives.
4. Sending never waits: what an agent does not take piles up to a bound, and then its connection is cut.
5. A numbered frame is acknowledged when it was taken, with an error when taking it failed.
"""

import asyncio
import itertools
import logging
import socket
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any, Protocol

import msgspec
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from llmgw.control.fleet import ObservedFleet
from llmgw.control.outbox import Outbox
from llmgw.control.pairing import ANSWER_LIMIT_S, Pairing, Unanswered
from llmgw.core.errors import FrameError
from llmgw.core.fleet.logs import LogPiece
from llmgw.core.fleet.sanity import is_credible
from llmgw.core.fleet.shards import ShardSpec, ShardState
from llmgw.core.ids import Generation, name_problem
from llmgw.runtime.clock import Clock
from llmgw.runtime.listening import many
from llmgw.wire.codec import LARGEST_BYTES, UnknownFrame, encode, from_agent
from llmgw.wire.frames import (
    PROTOCOL,
    Ack,
    AskRegister,
    DrainShard,
    FollowLogs,
    FromServer,
    Heartbeat,
    LogLines,
    LogsReply,
    LogsRequest,
    LookFor,
    Numbered,
    Register,
    RemoveWeights,
    ShardStatus,
    StartShard,
    StopFollow,
    StopShard,
    TakenLogs,
    WeightsRemoved,
    Welcome,
)
from llmgw.wire.session import Link, Received

log = logging.getLogger(__name__)

MOST_WAITING = 1024
MOST_COMPLAINTS = 5
MOST_TAGS = 100
SUPERSEDED = 4000
REFUSED = 4001
PING_EVERY_S = 20.0
MOST_KNOCKING = 2048
"""Connections that the kernel keeps until they are taken: a whole fleet dials at once when a server is back."""


class Greeting(msgspec.Struct, frozen=True, kw_only=True):
    """What every agent is told when it has registered.

    Attributes:
        heartbeat_s: seconds between the heartbeats it is to send.
    """

    epoch: int
    heartbeat_s: float
    version: str


class FollowListener(Protocol):
    """Whoever follows logs over the hub; none of these may wait."""

    def connected(self, node_id: str) -> None:
        """A node has a new stream: whatever was followed over an earlier one is to be asked for again."""

    def disconnected(self, node_id: str) -> None:
        """A node's stream ended."""

    def heard(self, node_id: str, follow_id: int, number: int, piece: LogPiece) -> None:
        """The piece of this number of a follow came; `take_more` with the number lets more come."""


class _Peer:
    """One connection of an agent."""

    def __init__(self, number: int, connection: ServerConnection) -> None:
        self.number = number
        self.where = str((connection.remote_address or ("?",))[0])
        self.outbox = Outbox(connection, most=MOST_WAITING)
        self.node_id: str | None = None
        self.instance: str | None = None
        self.heard_now = 0.0
        self.asked = False
        self.complaints = 0

    def __str__(self) -> str:
        return f"{self.node_id or 'an agent'} at {self.where}"

    def post(self, frame: FromServer | Numbered) -> bool:
        """Let a frame wait to be sent; False when it will not be."""
        try:
            data = encode(frame)
        except FrameError as error:
            self.complain(f"cannot be told: {error}")
            return False
        return self.outbox.post(data)

    def doubt(self, shards: Iterable[ShardState]) -> None:
        """Log which shards it tells of that cannot be, and that the fleet will not take."""
        for shard in shards:
            if not is_credible(shard):
                where = f"rank {shard.rank}, ordinal {shard.ordinal}, generation {shard.generation}"
                self.complain(f"tells of a shard {shard.shard[:96]!r} that cannot be ({where}); ignored")

    def complain(self, message: str) -> None:
        """Log what is wrong with this connection, a few times."""
        self.complaints += 1
        if self.complaints <= MOST_COMPLAINTS:
            last = "; no more of this connection is logged" if self.complaints == MOST_COMPLAINTS else ""
            log.warning("%s %s%s", self, message, last)


class Hub:
    """Owner of all agent connections and of the link state of every node."""

    def __init__(
        self, fleet: ObservedFleet, *, clock: Clock, greeting: Greeting, register_within_s: float = 10.0
    ) -> None:
        self._fleet = fleet
        self._clock = clock
        self._greeting = greeting
        self._register_within_s = register_within_s
        self._numbers = itertools.count(1)
        self._peers: dict[str, _Peer] = {}
        self._links: dict[str, Link] = {}
        self._unknown_tags: set[str] = set()
        self._pairing = Pairing(greeting.epoch)
        self._follower: FollowListener | None = None
        self._sources: tuple[str, ...] = ()

    @asynccontextmanager
    async def listening(self, at: socket.socket) -> AsyncIterator[None]:
        """Take agents on a bound socket for as long as the block lasts; then close every connection."""
        # The library's own lines are tracebacks of whoever knocks without being an agent.
        silent = logging.getLogger(f"{__name__}.websockets")
        silent.setLevel(logging.CRITICAL)
        servers: list[Server] = []
        try:
            for one in many(at):
                servers.append(
                    await serve(
                        self._converse,
                        sock=one,
                        compression=None,
                        max_size=LARGEST_BYTES,
                        max_queue=16,
                        ping_interval=PING_EVERY_S,
                        ping_timeout=PING_EVERY_S,
                        close_timeout=2.0,
                        backlog=MOST_KNOCKING,
                        logger=silent,
                    )
                )
            yield
        finally:
            for server in servers:
                server.close(reason="the server ends")
            for server in servers:
                await server.wait_closed()

    # commands

    def send(self, node_id: str, frame: FromServer) -> bool:
        """Send a frame to a node, numbered when it is of a numbered kind; False when it is not connected."""
        peer = self._peers.get(node_id)
        if peer is None:
            return False
        return peer.post(self._links[node_id].send(frame) if isinstance(frame, Numbered) else frame)

    def start(self, node_id: str, spec: ShardSpec) -> bool:
        """Tell a node to start a shard; False when it is not connected."""
        return self.send(node_id, StartShard(spec=spec))

    def stop(self, node_id: str, shard: str, generation: Generation, because: str) -> bool:
        """Tell a node to stop a shard; False when it is not connected."""
        return self.send(node_id, StopShard(shard=shard, generation=generation, because=because))

    def drain(
        self, node_id: str, shard: str, generation: Generation, deadline_s: float, because: str
    ) -> bool:
        """Tell a node to let a shard finish and to stop it then; False when it is not connected."""
        frame = DrainShard(shard=shard, generation=generation, deadline_s=deadline_s, because=because)
        return self.send(node_id, frame)

    def look_for(self, sources: tuple[str, ...]) -> None:
        """Tell every node, and each that connects later, which sources the catalog names."""
        if sources != self._sources:
            self._sources = sources
            for peer in self._peers.values():
                peer.post(LookFor(sources=sources))

    # requests and what answers them

    async def ask_for_logs(
        self, node_id: str, source: str, lines: int, limit_s: float = ANSWER_LIMIT_S
    ) -> LogsReply | Unanswered:
        """Ask a node for the newest lines of a source."""
        return await self._pairing.ask(
            node_id,
            lambda number: self.send(node_id, LogsRequest(request_id=number, source=source, lines=lines)),
            LogsReply,
            limit_s,
        )

    async def ask_to_remove(
        self, node_id: str, names: tuple[str, ...], limit_s: float = ANSWER_LIMIT_S
    ) -> WeightsRemoved | Unanswered:
        """Ask a node to remove cache-named files of its weights cache.

        A request that found no answer may be carried out all the same: the node was told and may answer late.
        """
        return await self._pairing.ask(
            node_id,
            lambda number: self.send(node_id, RemoveWeights(request_id=number, names=names)),
            WeightsRemoved,
            limit_s,
        )

    def end_waiting(self) -> None:
        """End every request that waits, and what is asked from now on: the server is ending."""
        self._pairing.close()

    # follows

    def listen_to_follows(self, follower: FollowListener) -> None:
        """Tell `follower` from now on what comes of follows."""
        self._follower = follower

    def follow(
        self, node_id: str, follow_id: int, source: str, *, cursor: str | None, until: str | None, lines: int
    ) -> bool:
        """Begin a follow on a node's stream, of a number that no other has; False when it is not connected.

        Args:
            cursor: where to go on; None for the newest `lines` lines and what comes then.
            until: the cursor to end at; None for none.
        """
        frame = FollowLogs(follow_id=follow_id, source=source, cursor=cursor, until=until, lines=lines)
        return self.send(node_id, frame)

    def take_more(self, node_id: str, follow_id: int, number: int) -> None:
        """Tell the node that the piece of this number was taken."""
        self.send(node_id, TakenLogs(follow_id=follow_id, number=number))

    def stop_follow(self, node_id: str, follow_id: int) -> None:
        """Tell the node that nobody looks any more."""
        self.send(node_id, StopFollow(follow_id=follow_id))

    # conversations

    async def _converse(self, connection: ServerConnection) -> None:
        peer = _Peer(next(self._numbers), connection)
        try:
            async with asyncio.TaskGroup() as tasks:
                sending = tasks.create_task(peer.outbox.send_all())
                await self._listen(peer, connection)
                sending.cancel()
        except* ConnectionClosed:
            pass
        except* Exception:
            # The border of an owned task: a fault in one conversation ends that one.
            log.exception("the conversation with %s failed", peer)
        finally:
            self._left(peer)

    async def _listen(self, peer: _Peer, connection: ServerConnection) -> None:
        try:
            async with asyncio.timeout(self._register_within_s):
                while peer.node_id is None:
                    self._heard(peer, await connection.recv())
        except TimeoutError:
            peer.complain(f"did not register within {self._register_within_s:g} s; its connection is closed")
            await connection.close(REFUSED, "no Register came")
            return
        async for data in connection:
            self._heard(peer, data)

    def _left(self, peer: _Peer) -> None:
        if peer.node_id is not None and self._peers.get(peer.node_id) is peer:
            del self._peers[peer.node_id]
            self._ended(peer.node_id)
            self._fleet.disconnected(peer.node_id, connection=peer.number)

    def _ended(self, node_id: str) -> None:
        """End what was asked over a stream that is no more."""
        self._pairing.disconnected(node_id)
        if self._follower is not None:
            self._follower.disconnected(node_id)

    # frames

    def _heard(self, peer: _Peer, data: bytes | str) -> None:
        peer.heard_now = self._clock.now()
        try:
            if isinstance(data, str):
                raise FrameError("a text message, wanted a binary one")
            frame = from_agent(data)
        except FrameError as error:
            peer.complain(f"sent {error}; dropped")
            return
        if isinstance(frame, UnknownFrame):
            self._note_unknown(peer, frame.tag)
        elif isinstance(frame, Register):
            self._register(peer, frame)
        elif peer.node_id is None:
            self._ask(peer)
        elif self._peers.get(peer.node_id) is peer:
            # What a superseded connection still brings would upset the numbers of the one that took its place.
            self._deliver(peer, peer.node_id, frame)

    def _note_unknown(self, peer: _Peer, tag: str) -> None:
        if tag not in self._unknown_tags and len(self._unknown_tags) < MOST_TAGS:
            self._unknown_tags.add(tag)
            log.warning("%s sends frames %r, which this version does not know; ignored", peer, tag)

    def _ask(self, peer: _Peer) -> None:
        if not peer.asked:
            peer.asked = True
            peer.post(AskRegister(reason="this server does not know this connection; register first"))

    def _register(self, peer: _Peer, frame: Register) -> None:
        node_id = frame.said.node
        if problem := self._register_problem(peer, node_id) or self._rivalry(peer, node_id, frame.instance):
            peer.complain(f"may not register: {problem}")
            peer.outbox.close(REFUSED, problem)
            return
        earlier = self._peers.get(node_id)
        if earlier is not None and earlier is not peer:
            log.warning("%s connected again; the connection from %s is ended", peer.where, earlier)
            earlier.outbox.close(SUPERSEDED, "a later connection of this node has registered")
        if frame.protocol != PROTOCOL and peer.node_id is None:
            log.info("%s speaks protocol %d, this server %d", node_id, frame.protocol, PROTOCOL)
        self._welcome(peer, frame)

    def _register_problem(self, peer: _Peer, node_id: str) -> str | None:
        if wrong := name_problem("node", node_id):
            return wrong
        if peer.node_id not in (None, node_id):
            return f"this connection registered as {peer.node_id!r} before and now as {node_id!r}"
        earlier = self._peers.get(node_id)
        if earlier is not None and earlier.number > peer.number:
            return f"a later connection of {node_id!r} has registered"
        return None

    def _rivalry(self, peer: _Peer, node_id: str, instance: str | None) -> str | None:
        """Refuse a second agent of one name, for as long as the first gives signs of life.

        A restarted agent comes under another instance too, but the connection of the one before ended with it, or is
        silent.
        """
        present = self._peers.get(node_id)
        if present is None or present is peer or None in (instance, present.instance):
            return None
        silent_s = self._clock.now() - present.heard_now
        if instance == present.instance or silent_s > 2 * self._greeting.heartbeat_s:
            return None
        self._fleet.contested(node_id, peer.where)
        # The reason of a closing has room for 123 bytes.
        return (
            f"an agent at {present.where} is {node_id[:32]!r} already; give one another `node` in agent.yaml"
        )

    def _welcome(self, peer: _Peer, frame: Register) -> None:
        node_id, now = frame.said.node, self._clock.now()
        link = self._links.setdefault(node_id, Link(dead_after_s=float("inf"), now=now))
        again: tuple[Numbered, ...] = ()
        is_new = peer.node_id is None
        if is_new:
            if node_id in self._peers:
                self._ended(node_id)
            again = link.reopen(now)
            peer.node_id, peer.instance = node_id, frame.instance
            self._peers[node_id] = peer
        told = {f.spec.shard: f.spec.generation for f in link.awaiting if isinstance(f, StartShard)}
        greeting = self._greeting
        peer.post(
            Welcome(
                protocol=PROTOCOL,
                epoch=greeting.epoch,
                heartbeat_s=greeting.heartbeat_s,
                version=greeting.version,
            )
        )
        if is_new and self._sources:
            peer.post(LookFor(sources=self._sources))
        for numbered in again:
            peer.post(numbered)
        peer.doubt(frame.said.shards)
        self._fleet.register(frame.said, connection=peer.number, on_the_way=told, protocol=frame.protocol)
        if is_new and self._follower is not None:
            self._follower.connected(node_id)

    def _deliver(self, peer: _Peer, node_id: str, frame: Any) -> None:
        error = None
        received = self._links[node_id].receive(frame, self._clock.now())
        try:
            self._take(peer, node_id, received)
        except Exception:  # the border of a frame: its sender gets an answer
            log.exception("a %s of %s failed", type(frame).__name__, peer)
            error = "internal error in the server; its log says more"
        if received.ack is not None:
            peer.post(Ack(seq=received.ack, error=error))

    def _take(self, peer: _Peer, node_id: str, received: Received) -> None:
        number = peer.number
        match received.deliver:
            case Heartbeat() as said:
                self._fleet.heard(node_id, connection=number, said=said)
                return
            case ShardStatus(state=state):
                peer.doubt((state,))
                self._fleet.shard_reported(node_id, state, connection=number)
            case LogsReply(request_id=request_id) | WeightsRemoved(request_id=request_id) as reply:
                self._pairing.answer(node_id, request_id, reply)
            case LogLines(follow_id=follow_id, number=piece) as lines if self._follower is not None:
                self._follower.heard(node_id, follow_id, piece, lines)
        self._fleet.heard(node_id, connection=number)
        match received.answered:
            case StartShard(spec=spec) if received.error is not None:
                self._fleet.start_refused(node_id, spec, received.error, connection=number)
            case StopShard(shard=shard, generation=generation):
                self._fleet.stop_taken(node_id, shard, generation, connection=number)
            case RemoveWeights(request_id=request_id) if received.error is not None:
                self._pairing.decline(node_id, request_id, received.error)
