"""What each frame from the server does on this node."""

import msgspec

from llmgw.agent.logs.desk import LogDesk
from llmgw.agent.stock import Stock
from llmgw.agent.supervisor import Supervisor
from llmgw.wire.frames import (
    DrainShard,
    FollowLogs,
    LogsRequest,
    LookFor,
    Provision,
    RemoveWeights,
    StartShard,
    StopFollow,
    StopShard,
    TakenLogs,
)

Command = (
    StartShard
    | StopShard
    | DrainShard
    | LookFor
    | RemoveWeights
    | Provision
    | LogsRequest
    | FollowLogs
    | TakenLogs
    | StopFollow
)


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What goes back at once: the error for the Ack (None is done). Replies come later, from whoever makes them."""

    error: str | None = None


class Commands:
    """Hands commands to whoever carries them out. Nothing here waits: the loop that reads the link calls it."""

    def __init__(self, supervisor: Supervisor, logs: LogDesk, stock: Stock) -> None:
        self._supervisor = supervisor
        self._stock = stock
        self._logs = logs

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
            case LogsRequest() | FollowLogs() | TakenLogs() | StopFollow():
                return self._take_of_logs(frame)
            case LookFor(sources=sources):
                self._stock.look_for(sources)
                return Answer()
            case RemoveWeights():
                self._stock.remove_soon(frame)
                return Answer()
            case Provision(engine=engine):
                return Answer(
                    error=f"this version of the agent cannot install {engine!r}; "
                    "install it and name it under `engines` in agent.yaml"
                )

    def _take_of_logs(self, frame: LogsRequest | FollowLogs | TakenLogs | StopFollow) -> Answer:
        match frame:
            case LogsRequest():
                self._logs.request(frame)
            case FollowLogs():
                self._logs.follow(frame)
            case TakenLogs(follow_id=follow_id, number=number):
                self._logs.taken(follow_id, number)
            case StopFollow(follow_id=follow_id):
                self._logs.stop(follow_id)
        return Answer()
