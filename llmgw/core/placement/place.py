"""Choose the nodes of one more replica of a model, or refuse, and say why."""

from collections.abc import Mapping

import msgspec

from llmgw.core.fleet.catalog import Model, Profile
from llmgw.core.fleet.shards import Claim
from llmgw.core.placement.column import rows_in
from llmgw.core.placement.demand import Demand, demand_of
from llmgw.core.placement.filters import FILTERS, judge
from llmgw.core.placement.need import Need
from llmgw.core.placement.room import Room, claim_of
from llmgw.core.placement.rooms import Rooms
from llmgw.core.placement.seats import choose_rows, most_together
from llmgw.core.placement.verdict import Verdict

_SHOWN = 3
"""A refusal names about this many nodes, one at least for each profile; `ctl explain` names all."""


class Seat(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Where one shard of a replica goes, and what it is promised there."""

    node: str
    claim: Claim


class Placed(msgspec.Struct, frozen=True, kw_only=True, gc=False):
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


class Refused(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Why a replica goes nowhere.

    Attributes:
        nodes: how many were asked.
        count: how many verdicts there are: one for each profile and node.
        by_rule: how many of them each rule gave, in the order in which the rules are asked.
        verdicts: a few of them, of nodes that came nearest; `explain` gives all.
    """

    model: str
    nodes: int = 0
    count: int = 0
    by_rule: dict[str, int] = {}
    verdicts: tuple[Verdict, ...] = ()

    def summary(self) -> str:
        """Say it in one line: how many each rule refused, a few verdicts, and how many more there are."""
        if not self.nodes:
            return f"model {self.model!r} fits nowhere: no node is registered; start 'llmgw agent' on one"
        shown = "; ".join(str(v) for v in self.verdicts)
        left = self.count - len(self.verdicts)
        rules = ", ".join(f"{count} for {rule}" for rule, count in self.by_rule.items())
        more = f"; and {left} more verdicts ({rules} in all)" if left else ""
        return f"model {self.model!r} fits on none of {self.nodes} nodes: {shown}{more}"


class Sifted(msgspec.Struct, frozen=True, gc=False):
    """Which rooms a demand fits in, and which rule refused each of the others.

    Attributes:
        fitting: rows of rooms that one shard fits in.
        refused: rows that each rule refused, in the order of the rules.
    """

    fitting: int
    refused: dict[str, int]


def place(model: Model, rooms: Rooms, needs: Mapping[str, Need] | None = None) -> Placed | Refused:
    """Choose the nodes of a replica; profiles are tried in order, and the first that fits anywhere wins.

    Args:
        needs: what is known of the needs of profiles beyond the catalog, by their fingerprint.
    """
    asked: list[tuple[Profile, Demand, Sifted]] = []
    for profile, demand in demands_of(model, needs):
        sifted = sift(demand, rooms)
        rows, fabric = choose_rows(model.name, demand, rooms, sifted.fitting)
        if rows:
            seats = tuple(_seat(demand, rooms.rows[row]) for row in rows)
            because = _because(sifted.fitting.bit_count(), len(rooms), len(rows), fabric)
            return Placed(seats=seats, profile=profile, because=because, fabric=fabric)
        asked.append((profile, demand, sifted))
    return _refused(model, rooms, asked)


def demands_of(model: Model, needs: Mapping[str, Need] | None = None) -> list[tuple[Profile, Demand]]:
    """List what each profile of a model asks for, in the order of the catalog."""
    return [
        (profile, demand_of(profile, needs.get(profile.fingerprint()) if needs else None))
        for profile in model.profiles
    ]


def sift(demand: Demand, rooms: Rooms) -> Sifted:
    """Ask every room, one filter after the other over all that are left."""
    left, refused = rooms.every, {}
    for one in FILTERS:
        passing = one.those_passing(demand, rooms, left)
        if passing != left:
            refused[one.rule] = left ^ passing
            left = passing
        if not left:
            break
    return Sifted(left, refused)


def too_few(demand: Demand, rooms: Rooms, fitting: int, room: Room) -> Verdict | None:
    """Refuse a node that fits where too few others do; None when enough are together.

    Args:
        fitting: the rows of nodes that one shard fits on; `room` is one of them.
    """
    together, fabric = most_together(demand, rooms, fitting)
    if together >= demand.nodes:
        return None
    where = "" if demand.fabric is None else f" on fabric {fabric}" if fabric else " on one fabric"
    return Verdict(
        node=room.node.id,
        rule=_rule_of_many(demand),
        needed=f"{demand.nodes} nodes that fit{' on one fabric' if demand.fabric is not None else ''}",
        had=f"{together}{where}",
        would_fit_if=f"{demand.nodes - together} more fitted{where}",
    )


def _rule_of_many(demand: Demand) -> str:
    return "nodes" if demand.fabric is None else "fabric"


def _seat(demand: Demand, room: Room) -> Seat:
    return Seat(node=room.node.id, claim=claim_of(demand, room))


def _refused(model: Model, rooms: Rooms, asked: list[tuple[Profile, Demand, Sifted]]) -> Refused:
    by_rule: dict[str, int] = {}
    verdicts: list[Verdict] = []
    for profile, demand, sifted in asked:
        for rule, rows in sifted.refused.items():
            by_rule[rule] = by_rule.get(rule, 0) + rows.bit_count()
        if sifted.fitting:
            rule = _rule_of_many(demand)
            by_rule[rule] = by_rule.get(rule, 0) + sifted.fitting.bit_count()
        for verdict in _nearest(demand, rooms, sifted, max(1, _SHOWN // len(asked))):
            verdicts.append(msgspec.structs.replace(verdict, profile=profile.name))
    return Refused(
        model=model.name,
        nodes=len(rooms),
        count=len(rooms) * len(asked),
        by_rule=by_rule,
        verdicts=tuple(verdicts),
    )


def _nearest(demand: Demand, rooms: Rooms, sifted: Sifted, count: int) -> list[Verdict]:
    """Give the verdicts of a few nodes that came furthest: what keeps those out is what is worth changing."""
    nearest: list[int] = []
    for rows in (sifted.fitting, *reversed(sifted.refused.values())):
        if len(nearest) < count:
            nearest += rows_in(rows)[: count - len(nearest)]
    verdicts = (
        judge(demand, rooms.rows[row]) or too_few(demand, rooms, sifted.fitting, rooms.rows[row])
        for row in nearest
    )
    return [verdict for verdict in verdicts if verdict is not None]


def _because(fitting: int, asked: int, seats: int, fabric: str | None) -> str:
    where = f" on fabric {fabric}" if fabric else ""
    if fitting == 1:
        return f"the only one of {asked} nodes that fits" if asked > 1 else "the only node"
    if seats > 1:
        return f"the best {seats}{where} of {fitting} nodes that fit (of {asked})"
    return (
        f"the best of {fitting} nodes that fit (of {asked}) by weights held, fewest copies and tightest fit"
    )
