"""Choose a node for one more replica of a model, or refuse, and explain both."""

from collections.abc import Mapping

import msgspec

from llmgw.core.fleet.catalog import Model, Profile
from llmgw.core.placement.demand import Demand, demand_of
from llmgw.core.placement.filters import FILTERS, Verdict
from llmgw.core.placement.room import Room
from llmgw.core.placement.scores import SCORES


class Placed(msgspec.Struct, frozen=True, kw_only=True):
    """Where a replica goes, how it runs there, and what decided."""

    node: str
    profile: Profile
    because: str


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """Why a replica goes nowhere: a verdict for each profile and node."""

    model: str
    verdicts: tuple[Verdict, ...] = ()

    def summary(self) -> str:
        """Say it in one line: counts by rule, and each node's verdict while they are few."""
        if not self.verdicts:
            return f"model {self.model!r} fits nowhere: no node is registered; start 'llmgw agent' on one"
        nodes = {v.node for v in self.verdicts}
        shown = "; ".join(str(v) for v in self.verdicts[:3])
        more = f"; and {len(self.verdicts) - 3} more verdicts" if len(self.verdicts) > 3 else ""
        return f"model {self.model!r} fits on none of {len(nodes)} nodes: {shown}{more}"


def place(model: Model, rooms: Mapping[str, Room]) -> Placed | Refused:
    """Choose a node; profiles are tried in order, and the first that fits anywhere wins."""
    verdicts: list[Verdict] = []
    for profile in model.profiles:
        demand = demand_of(profile)
        fitting = []
        for room in rooms.values():
            verdict = judge(demand, room)
            if verdict is None:
                fitting.append(room)
            else:
                verdicts.append(msgspec.structs.replace(verdict, profile=profile.name))
        if fitting:
            best = min(fitting, key=lambda room: _rank(model.name, demand, room))
            return Placed(
                node=best.node.id, profile=profile, because=_because(best, len(fitting), len(rooms))
            )
    return Refused(model=model.name, verdicts=tuple(verdicts))


def judge(demand: Demand, room: Room) -> Verdict | None:
    """Ask the filters in their order; the first that says no gives the verdict, None means that it fits."""
    for refuse in FILTERS:
        if (verdict := refuse(demand, room)) is not None:
            return verdict
    return None


def _rank(model: str, demand: Demand, room: Room) -> tuple[float | str, ...]:
    # The id comes last, so that equal nodes are chosen the same way each time.
    return (*(score(model, demand, room) for _, score in SCORES), room.node.id)


def _because(best: Room, fitting: int, asked: int) -> str:
    if fitting == 1:
        return f"the only one of {asked} nodes that fits" if asked > 1 else "the only node"
    return f"the best of {fitting} nodes that fit (of {asked}): fewest copies, then tightest fit"
