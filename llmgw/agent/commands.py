"""What each frame from the server does on this node."""

import msgspec

from llmgw.agent.supervisor import Supervisor
from llmgw.wire.frames import (
    DrainShard,
    LogsReply,
    LogsRequest,
    Provision,
    RemoveWeights,
    StartShard,
    StopShard,
)

Command = StartShard | StopShard | DrainShard | RemoveWeights | Provision | LogsRequest


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What goes back: the error for the Ack (None is done), and a reply of its own."""

    error: str | None = None
    reply: LogsReply | None = None


class Commands:
    """Hands commands to whoever carries them out. Nothing here waits: the loop that reads the link calls it."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor

    def take(self, frame: Command) -> Answer:
        """Begin what a frame asks for and say what goes back."""
        match frame:
            case StartShard(spec=spec):
                return Answer(error=self._supervisor.start(spec))
            case StopShard(shard=shard, generation=generation, because=because):
                self._supervisor.stop(shard, generation, because)
                return Answer()
            case DrainShard(shard=shard, generation=generation, deadline_s=deadline_s, because=because):
                self._supervisor.drain(shard, generation, deadline_s, because)
                return Answer()
            case LogsRequest(request_id=request_id):
                error = "this version of the agent keeps no logs that it could show; look at its journal on the node"
                return Answer(reply=LogsReply(request_id=request_id, sources=("agent",), error=error))
            case RemoveWeights():
                return Answer(
                    error="this version of the agent keeps no weights, so there is nothing it may remove"
                )
            case Provision(engine=engine):
                return Answer(
                    error=f"this version of the agent cannot install {engine!r}; "
                    "install it and name it under `engines` in agent.yaml"
                )
