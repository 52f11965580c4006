"""A plan while it is made: what was decided so far, and what the rules ask again and again."""

from collections.abc import Iterable, Mapping
from functools import cached_property

from llmgw.core.fleet.copies import Copy, Member
from llmgw.core.fleet.orders import Orders, Roll
from llmgw.core.fleet.shards import Phase
from llmgw.core.fleet.snapshot import Fleet, NodeState, is_leaving
from llmgw.core.ids import Generation
from llmgw.core.placement.need import Need
from llmgw.core.placement.place import Refused
from llmgw.core.placement.rooms import Rooms, rooms_of
from llmgw.core.reconcile.actions import Action, Plan, Start, Stop

_SERVING = (Phase.READY, Phase.DRAINING)


class Draft:
    """A plan while it is made.

    Attributes:
        leaving: copies that were told to stop and are not gone, by model: those that may still have requests in flight,
            and all of those that span several nodes.
        restarts: restarts that are not over.
    """

    def __init__(
        self,
        fleet: Fleet,
        *,
        epoch: int,
        counter: int,
        now: float,
        orders: Orders,
        needs: Mapping[str, Need],
    ) -> None:
        self.fleet = fleet
        self.needs = needs
        self.now = now
        self.orders = orders
        self.leaving: dict[str, list[Copy]] = {}
        self.refused: dict[str, Refused] = {}
        self.rolls: dict[str, Roll] = {}
        self.restarts: dict[str, Generation] = {}
        self._latest = _latest(fleet, Generation(epoch, counter))
        self._actions: list[Action] = []
        self._stopped: set[tuple[str, str]] = set()
        self._next_now: float | None = None

    def finished(self) -> Plan:
        """Give the plan."""
        return Plan(
            actions=tuple(self._actions),
            refused=self.refused,
            epoch=self._latest.epoch,
            counter=self._latest.counter,
            next_now=self._next_now,
            orders=Orders(rolls=self.rolls, restarts=self.restarts),
        )

    def next_generation(self) -> Generation:
        """Give out a generation that is later than everything observed."""
        self._latest = Generation(self._latest.epoch, self._latest.counter + 1)
        return self._latest

    def start(self, start: Start) -> None:
        """Start a shard."""
        self._actions.append(start)

    def stop(self, copy: Copy, because: str) -> bool:
        """Stop a copy and the older ones that serve in its place; tells whether it keeps its ordinal for now."""
        for older in copy.older:
            self.stop(older, because)
        self.end(copy, copy.members, because)
        return (copy.ranks > 1 or copy.is_reachable) and self.note_leaving(copy)

    def end(self, copy: Copy, members: Iterable[Member], because: str) -> None:
        """Stop some processes of a copy, in the order of ranks; who cannot be told, or was told, is not."""
        serves = copy.is_ready
        headed = serves or copy.phase == Phase.DRAINING
        headed = headed and copy.members[0].state.rank == 0 and copy.members[0].is_live
        for member in members:
            state = member.state
            key = member.node.id, state.shard
            if member.is_leaving or not member.is_reachable or key in self._stopped:
                continue
            self._stopped.add(key)
            self._actions.append(
                Stop(
                    node=member.node.id,
                    shard=state.shard,
                    replica=state.replica,
                    generation=state.generation,
                    because=because,
                    serves=serves and state.rank == 0,
                    follows=headed and state.rank > 0,
                )
            )

    def note_leaving(self, copy: Copy) -> bool:
        """Remember a copy that is leaving; tells whether it keeps its ordinal for now."""
        stays = copy.lead.phase in _SERVING if copy.ranks == 1 else not copy.is_over
        if stays:
            self.leaving.setdefault(copy.model, []).append(copy)
        return stays

    def wait_until(self, due: float) -> None:
        """Have the next plan be made then, or earlier."""
        self._next_now = due if self._next_now is None else min(self._next_now, due)

    @cached_property
    def rooms(self) -> Rooms:
        """Room of every node, less what this plan has placed there; most plans place nothing and never ask."""
        return rooms_of(self.fleet)

    @cached_property
    def is_unsettled(self) -> bool:
        """Whether there may soon be more room: a node may come back, or something is just ending."""
        for node in self.fleet.nodes.values():
            if node.state == NodeState.UNREACHABLE:
                return True
            if node.state == NodeState.READY and any(is_leaving(node, s) for s in node.shards.values()):
                return True
        return False


def _latest(fleet: Fleet, given: Generation) -> Generation:
    observed = (shard.generation for node in fleet.nodes.values() for shard in node.shards.values())
    return max((given, *observed))
