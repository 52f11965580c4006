"""What a plan says is to be done."""

import msgspec

from llmgw.core.fleet.orders import Orders
from llmgw.core.fleet.shards import ShardSpec
from llmgw.core.ids import Generation
from llmgw.core.placement.place import Refused


class Start(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Tell a node to start a shard."""

    node: str
    spec: ShardSpec
    because: str


class Stop(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Tell a node to stop a shard of this generation or an older one, and to forget it.

    Attributes:
        serves: it may have requests in flight, which finish first.
        follows: rank 0 of its replica runs still; this one goes when that one is gone.
    """

    node: str
    shard: str
    replica: str
    generation: Generation
    because: str
    serves: bool = False
    follows: bool = False


Action = Start | Stop


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What to do now.

    Attributes:
        refused: models of which a replica fits nowhere.
        epoch: of the generations given out: the server's own unless a later one was observed.
        counter: the highest generation counter used so far.
        next_now: monotonic seconds at which planning again may give something new, by backoff; None when nothing waits.
        orders: as they stand now; those of models that left are gone.
    """

    actions: tuple[Action, ...] = ()
    refused: dict[str, Refused] = {}
    epoch: int = 0
    counter: int = 0
    next_now: float | None = None
    orders: Orders = Orders()
