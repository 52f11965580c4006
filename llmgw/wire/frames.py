"""The frames of the link, as tagged structs in two unions: FromAgent and FromServer.

Evolution: a new field has a default, nothing is renamed or retyped; the golden files under tests/wire/golden prove that
old bytes still decode. A frame with a `seq` is answered by an Ack of that number, and once is enough: commands are
idempotent by (shard, generation), so what is sent again after a reconnect does no harm.
"""

import msgspec

from llmgw.core.fleet.beat import Beat
from llmgw.core.fleet.logs import LogPiece
from llmgw.core.fleet.shards import ShardSpec, ShardState
from llmgw.core.fleet.snapshot import Introduction
from llmgw.core.ids import Generation

PROTOCOL = 2
"""Grows when an agent and a server of different numbers must know of each other; both ways still work.

Since 2 an agent knows Gang: an older one would run a rank as if it were the whole replica, so it is given none.
"""


class Register(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="register"):
    """First frame of every connection: all the node is and runs. A level: it replaces what was known.

    Attributes:
        protocol: the sender's PROTOCOL; 0 when it does not say. A field that has its default does not travel, so the
            default must not be a number in use.
        instance: made anew at every start of an agent; tells a restarted one from a second one of the same name.
    """

    protocol: int = 0
    instance: str | None = None
    said: Introduction


class Heartbeat(Beat, frozen=True, kw_only=True, omit_defaults=True, tag="heartbeat"):
    """Every few seconds: a sign of life and what changes by itself. None means not said; () means none."""


class ShardStatus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="shard-status"):
    """A transition of one engine process."""

    seq: int = 0
    state: ShardState


class LogsReply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="logs-reply"):
    """The answer to a LogsRequest of the same id; `sources` always lists all that can be shown.

    Attributes:
        left_out: older lines that were asked for and had no room in one frame.
    """

    request_id: int
    lines: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    error: str | None = None
    left_out: int = 0


class LogLines(LogPiece, frozen=True, kw_only=True, omit_defaults=True, tag="log-lines"):
    """One piece of a source that is followed, in the order of the source; answered by TakenLogs.

    Attributes:
        follow_id: of the FollowLogs that asked for it.
        number: counts the pieces of one follow from 1.
    """

    follow_id: int
    number: int = 0


class WeightsRemoved(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="weights-removed"):
    """The answer to a RemoveWeights of the same id.

    Attributes:
        freed_bytes: of all files that were removed.
        refused: why, by each name that was not removed, in the node's words.
    """

    request_id: int
    removed: tuple[str, ...] = ()
    freed_bytes: int = 0
    refused: dict[str, str] = {}


class Ack(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="ack"):
    """The numbered frame `seq` arrived; `error` says why it was refused, if it was."""

    seq: int
    error: str | None = None


class Welcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="welcome"):
    """The server's answer to Register.

    Attributes:
        protocol: as in Register.
        epoch: number of this server start.
        heartbeat_s: seconds between heartbeats.
    """

    protocol: int = 0
    epoch: int
    heartbeat_s: float = 5.0
    version: str | None = None


class AskRegister(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="ask-register"):
    """The server does not know this connection's node (any more): register again."""

    reason: str = ""


class StartShard(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="start-shard"):
    """Start this engine process, or replace an older generation of it."""

    seq: int = 0
    spec: ShardSpec


class StopShard(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="stop-shard"):
    """Stop the shard if it is of this generation or older, and forget it."""

    seq: int = 0
    shard: str
    generation: Generation
    because: str = ""


class DrainShard(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="drain-shard"):
    """Let what is in flight finish for at most `deadline_s` seconds, then stop the shard."""

    seq: int = 0
    shard: str
    generation: Generation
    deadline_s: float = 60.0
    because: str = ""


class LookFor(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="look-for"):
    """Look for these sources, which the catalog names, and report them. A level: it replaces the last."""

    sources: tuple[str, ...] = ()


class RemoveWeights(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="remove-weights"):
    """Remove these cache-named files from the weights cache.

    Attributes:
        request_id: of the WeightsRemoved that answers; 0 asks for none.
    """

    seq: int = 0
    names: tuple[str, ...] = ()
    request_id: int = 0


class Provision(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="provision"):
    """Have this engine at this version."""

    seq: int = 0
    engine: str
    version: str


class LogsRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="logs-request"):
    """Send the newest `lines` lines of a source."""

    request_id: int
    source: str = "agent"
    lines: int = 300


class FollowLogs(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="follow-logs"):
    """Send the lines of a source as they come, in LogLines, until StopFollow or the end of the connection.

    The first LogLines comes at once, if need be without lines.

    Attributes:
        follow_id: chosen by the server; a follow of the same id is replaced.
        cursor: go on from here; None begins with the newest `lines` lines.
        until: end where this cursor is; None goes on for ever.
        lines: how many of the newest come first when there is no cursor, or none that can be gone on from.
        window: how many LogLines may be under way before one of them was taken.
    """

    follow_id: int
    source: str = "agent"
    cursor: str | None = None
    until: str | None = None
    lines: int = 300
    window: int = 2


class TakenLogs(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="taken-logs"):
    """The LogLines of this number, and all before it, were taken: as many more may come."""

    follow_id: int
    number: int = 0


class StopFollow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="stop-follow"):
    """Nobody looks any more: send no more of this follow."""

    follow_id: int


FromAgent = Register | Heartbeat | ShardStatus | LogsReply | LogLines | WeightsRemoved | Ack
FromServer = (
    Welcome
    | AskRegister
    | StartShard
    | StopShard
    | DrainShard
    | LookFor
    | RemoveWeights
    | Provision
    | LogsRequest
    | FollowLogs
    | TakenLogs
    | StopFollow
    | Ack
)
Numbered = ShardStatus | StartShard | StopShard | DrainShard | RemoveWeights | Provision
"""Frames that carry a `seq` and are answered by an Ack."""
