"""Choose a node for one more replica of a model, or refuse, and explain both."""

from collections.abc import Mapping
from itertools import islice

import msgspec

from llmgw.core.fleet.catalog import Model, Profile
from llmgw.core.placement.demand import Demand, demand_of
from llmgw.core.fleet.shards import Claim
from llmgw.core.placement.filters import FILTERS, Verdict
from llmgw.core.placement.need import Need
from llmgw.core.placement.room import Room
from llmgw.core.placement.scores import SCORES

_SHOWN = 5


class Seat(msgspec.Struct, frozen=True, kw_only=True):
    """Where one shard of a replica goes, and what it is promised there."""

    node: str
    claim: Claim


class Placed(msgspec.Struct, frozen=True, kw_only=True):
    """Where a replica goes, how it runs there, and what decided.

    Attributes:
        seats: of its shards, by rank; each on a node of its own.
        fabric: the network that they share; None when none was asked for.
    """

    seats: tuple[Seat, ...]
    profile: Profile
    because: str
    fabric: str | None = None

    @property
    def node(self) -> str:
        """The node of rank 0."""
        return self.seats[0].node


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """Why a replica goes nowhere.

    Attributes:
        nodes: how many were asked.
        count: how many verdicts there are: one for each profile and node.
        by_rule: how many of them each rule gave.
        verdicts: the first few of them; `explain` gives all.
    """

    model: str
    nodes: int = 0
    count: int = 0
    by_rule: dict[str, int] = {}
    verdicts: tuple[Verdict, ...] = ()

    def summary(self) -> str:
        """Say it in one line: a few verdicts, and how many more there are."""
        if not self.nodes:
            return f"model {self.model!r} fits nowhere: no node is registered; start 'llmgw agent' on one"
        shown = "; ".join(str(v) for v in self.verdicts)
        left = self.count - len(self.verdicts)
        more = f"; and {left} more verdicts" if left else ""
        return f"model {self.model!r} fits on none of {self.nodes} nodes: {shown}{more}"


def place(
    model: Model, rooms: Mapping[str, Room], needs: Mapping[str, Need] | None = None
) -> Placed | Refused:
    """Choose the nodes of a replica; profiles are tried in order, and the first that fits anywhere wins.

    Args:
        needs: what is known of the needs of profiles beyond the catalog, by their fingerprint.
    """
    for profile in model.profiles:
        demand = demand_of(profile, needs.get(profile.fingerprint()) if needs else None)
        fitting = _fitting(demand, rooms)
        if fitting:
            best = _best(model.name, demand, fitting)
            seat = Seat(node=best.node.id, claim=Claim(memory_bytes=demand.memory_bytes))
            return Placed(seats=(seat,), profile=profile, because=_because(len(fitting), len(rooms)))
    return _refused(model, rooms)


def judge(demand: Demand, room: Room) -> Verdict | None:
    """Ask the filters in their order; the first that says no gives the verdict, None means that it fits."""
    return next((one.verdict(demand, room) for one in FILTERS if one.refuses(demand, room)), None)


def _fitting(demand: Demand, rooms: Mapping[str, Room]) -> list[Room]:
    # One filter after the other over all rooms, and one score after the other below: over a thousand nodes that is
    # several times quicker than asking each room everything.
    fitting = list(rooms.values())
    for one in FILTERS:
        refuses = one.refuses
        fitting = [room for room in fitting if not refuses(demand, room)]
    return fitting


def _best(model: str, demand: Demand, fitting: list[Room]) -> Room:
    for score in SCORES:
        if len(fitting) == 1:
            break
        scores = [score(model, demand, room) for room in fitting]
        least = min(scores)
        fitting = [room for room, given in zip(fitting, scores, strict=True) if given == least]
    # The id comes last, so that equal nodes are chosen the same way each time.
    return min(fitting, key=lambda room: room.node.id)


def _refused(model: Model, rooms: Mapping[str, Room]) -> Refused:
    verdicts: list[Verdict] = []
    for profile in model.profiles:
        demand = demand_of(profile)
        for room in islice(rooms.values(), _SHOWN - len(verdicts)):
            verdict = judge(demand, room)
            assert verdict is not None
            verdicts.append(msgspec.structs.replace(verdict, profile=profile.name))
    return Refused(
        model=model.name, nodes=len(rooms), count=len(rooms) * len(model.profiles), verdicts=tuple(verdicts)
    )


def _because(fitting: int, asked: int) -> str:
    if fitting == 1:
        return f"the only one of {asked} nodes that fits" if asked > 1 else "the only node"
    return f"the best of {fitting} nodes that fit (of {asked}): fewest copies, then tightest fit"
