"""Placement as it is meant, asking one room after the other: what the index must agree with."""

from collections.abc import Mapping
from typing import NamedTuple

from msgspec.structs import replace

from llmgw.core.fleet.catalog import Model, Profile
from llmgw.core.fleet.shards import Claim
from llmgw.core.placement.demand import Demand, demand_of
from llmgw.core.placement.disk import with_promises
from llmgw.core.placement.filters import FILTERS
from llmgw.core.placement.need import Need
from llmgw.core.placement.room import Room, claim, claim_of
from llmgw.core.placement.scores import SCORES


class Chosen(NamedTuple):
    seats: list[tuple[str, Claim]]
    profile: Profile
    fabric: str | None


class SlowChooser:
    """Rooms in a plain dictionary, and nothing remembered between two questions."""

    def __init__(self, rooms: Mapping[str, Room], needs: Mapping[str, Need]) -> None:
        self.rooms = dict(rooms)
        self.needs = needs

    def place(self, model: Model) -> Chosen | dict[str, int]:
        """Choose, or say how many nodes each rule refuses."""
        by_rule: dict[str, int] = {}
        for profile in model.profiles:
            demand = demand_of(profile, self.needs.get(profile.fingerprint()))
            fitting = []
            for room in self.rooms.values():
                rule = next((one.rule for one in FILTERS if one.refuses(demand, room)), None)
                if rule is None:
                    fitting.append(room)
                else:
                    by_rule[rule] = by_rule.get(rule, 0) + 1
            seats, fabric = self._seats(model.name, demand, fitting)
            if seats:
                return Chosen([(r.node.id, claim_of(demand, r)) for r in seats], profile, fabric)
            if fitting:
                rule = "nodes" if demand.fabric is None else "fabric"
                by_rule[rule] = by_rule.get(rule, 0) + len(fitting)
        return by_rule

    def take(self, node: str, model: str, promised: Claim) -> None:
        """Take a placed shard off, also off what other nodes share."""
        room = claim(self.rooms[node], model, promised)
        self.rooms[node] = room
        if room.disk is None or not room.disk.filesystem.shared or promised.disk_bytes is None:
            return
        for name, other in self.rooms.items():
            theirs = other.disk
            if theirs is None or not theirs.filesystem.shared:
                continue
            if theirs.filesystem.device == room.disk.filesystem.device:
                disk = with_promises(theirs, room.disk.promised)
                self.rooms[name] = replace(other, disk=disk)

    def _seats(self, model: str, demand: Demand, fitting: list[Room]) -> tuple[list[Room], str | None]:
        def key(room: Room) -> tuple[float | str, ...]:
            return (*(score.of(model, demand, room) for score in SCORES), room.node.id)

        def best(rooms: list[Room]) -> list[Room]:
            chosen = sorted(rooms, key=key)[: demand.nodes]
            return sorted(chosen, key=lambda room: room.node.id) if len(chosen) == demand.nodes else []

        if demand.nodes == 1 or demand.fabric is None:
            return best(fitting), None
        names = {name for room in fitting for name in room.fabrics or ()}
        if demand.fabric != "any":
            names &= {demand.fabric}
        choices = []
        for name in sorted(names):
            seats = best([room for room in fitting if name in (room.fabrics or ())])
            if seats:
                sums = tuple(sum(score.of(model, demand, room) for room in seats) for score in SCORES)
                choices.append((sums, name, seats))
        if not choices:
            return [], None
        _, name, seats = min(choices, key=lambda one: one[:2])
        return seats, name
