"""A node's no, in words, and the shape of the filters that give it."""

from collections.abc import Callable

import msgspec

from llmgw.core.placement.column import rows_in, set_of
from llmgw.core.placement.demand import Demand
from llmgw.core.placement.room import Room
from llmgw.core.placement.rooms import Rooms


class Verdict(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Why one node was refused.

    Attributes:
        rule: the name of the filter that said no.
        needed: what was asked for.
        had: what was there, in the node's own words where it gave any.
        would_fit_if: what would make it fit.
    """

    node: str
    rule: str
    needed: str
    had: str
    would_fit_if: str
    profile: str | None = None

    def __str__(self) -> str:
        return (
            f"{self.node}: {self.rule}: needs {self.needed}, has {self.had}; would fit if {self.would_fit_if}"
        )


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """One reason to refuse a node.

    Attributes:
        rule: its name.
        refuses: tells whether this reason holds.
        verdict: says it, of a node that was refused.
        passing: asks many rooms at once (some rows of them) and gives those that pass, no others than `refuses`
            would; a filter without it asks one room after the other.
    """

    rule: str
    refuses: Callable[[Demand, Room], bool]
    verdict: Callable[[Demand, Room], Verdict]
    passing: Callable[[Demand, Rooms, int], int] | None = None

    def those_passing(self, demand: Demand, rooms: Rooms, among: int) -> int:
        """Give those rows of a set that this reason does not refuse."""
        if self.passing is not None:
            return among & self.passing(demand, rooms, among)
        return one_by_one(self.refuses, demand, rooms, among)


def one_by_one(refuses: Callable[[Demand, Room], bool], demand: Demand, rooms: Rooms, among: int) -> int:
    """Ask each room of a set by itself."""
    return set_of([row for row in rows_in(among) if not refuses(demand, rooms.rows[row])])
