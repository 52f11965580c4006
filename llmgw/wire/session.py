"""Sans-I/O state of one link: numbering, what awaits an Ack, what to send again, when the peer is dead.

Both ends use it, and it outlives connections. Rules:

1. `send` numbers a frame and keeps it until its Ack comes.
2. `receive` says of every frame whether it is to be delivered, and what to send back for it. A number that was seen on
   this connection before is acknowledged again but not delivered twice.
3. `reopen` begins a new connection: it gives what was not acknowledged to be sent again, except what the new
   Register makes moot (starts, stops and drains are edges of the level that Register carries).
4. A peer that has sent nothing for `dead_after_s` seconds is dead.
"""

from typing import Any

import msgspec
from msgspec.structs import replace

from llmgw.wire.frames import Ack, DrainShard, Numbered, ShardStatus, StartShard, StopShard

_MOOT = (StartShard, StopShard, DrainShard, ShardStatus)
_REMEMBERED = 4096


class Received(msgspec.Struct, frozen=True, kw_only=True):
    """What to do with one received frame.

    Attributes:
        deliver: the frame, or None when it was only an Ack or came twice.
        answered: the sent frame that this Ack answers, or None.
        error: why the peer refused it.
        ack: number to acknowledge once the frame has been taken (see `acknowledge`), or None.
    """

    deliver: Any = None
    answered: Any = None
    error: str | None = None
    ack: int | None = None


class Link:
    """One side's memory of a link. Owned by the loop that reads the connection."""

    def __init__(self, *, dead_after_s: float, now: float) -> None:
        self.dead_after_s = dead_after_s
        self._heard_now = now
        self._next_seq = 1
        self._awaiting: dict[int, Numbered] = {}
        self._seen: dict[int, None] = {}

    @property
    def awaiting(self) -> tuple[Numbered, ...]:
        """What was sent and not acknowledged, oldest first."""
        return tuple(self._awaiting.values())

    def send(self, frame: Numbered) -> Numbered:
        """Number a frame and keep it until it is acknowledged; send what this returns."""
        numbered = replace(frame, seq=self._next_seq)
        self._awaiting[self._next_seq] = numbered
        self._next_seq += 1
        return numbered

    def receive(self, frame: Any, now: float) -> Received:
        """Take one decoded frame from the peer."""
        self._heard_now = now
        if isinstance(frame, Ack):
            return Received(answered=self._awaiting.pop(frame.seq, None), error=frame.error)
        seq = getattr(frame, "seq", 0)
        if not seq:
            return Received(deliver=frame)
        if seq in self._seen:
            return Received(ack=seq)
        self._seen[seq] = None
        if len(self._seen) > _REMEMBERED:
            del self._seen[next(iter(self._seen))]
        return Received(deliver=frame, ack=seq)

    def reopen(self, now: float) -> tuple[Numbered, ...]:
        """Begin a new connection; send what this returns again, in its order, after the greeting."""
        self._heard_now = now
        self._seen.clear()
        self._awaiting = {seq: f for seq, f in self._awaiting.items() if not isinstance(f, _MOOT)}
        return self.awaiting

    def is_dead(self, now: float) -> bool:
        """Tell whether the peer has been silent for too long."""
        return now - self._heard_now >= self.dead_after_s
