"""A fleet that obeys at once: what a plan says is done to it, and its shards run or fail as the test wants."""

from collections.abc import Callable

from msgspec.structs import replace

from llmgw.core.fleet.catalog import Catalog
from llmgw.core.fleet.shards import Phase, ShardState
from llmgw.core.fleet.snapshot import Fleet, assigned, is_leaving, shard_reported, told_to_stop
from llmgw.core.reconcile import Plan, Start, Stop, plan


class SimulatedFleet:
    """Plans, does what the plan says, and lets every shard take its next step."""

    def __init__(self, fleet: Fleet, *, epoch: int = 5) -> None:
        self.fleet = fleet
        self.epoch = epoch
        self.counter = 0
        self.now = 0.0
        self.plans: list[Plan] = []

    def plan(self, catalog: Catalog) -> Plan:
        """Plan and note in the fleet what nodes are told, as the reconciler does."""
        made = plan(catalog, self.fleet, epoch=self.epoch, counter=self.counter, now=self.now)
        self.epoch, self.counter = made.epoch, made.counter
        self.plans.append(made)
        for action in made.actions:
            if isinstance(action, Start):
                self.fleet = assigned(self.fleet, action.node, action.spec)
            else:
                self.fleet = told_to_stop(self.fleet, action.node, action.shard, action.generation)
        return made

    def obey(self, outcome: Callable[[ShardState], Phase] = lambda shard: Phase.READY) -> None:
        """Let nodes end what they were told to stop, and let what was starting reach its `outcome`."""
        for node in self.fleet.nodes.values():
            for shard in node.shards.values():
                if is_leaving(node, shard):
                    self._report(node.id, replace(shard, phase=Phase.STOPPED))
                elif shard.phase == Phase.PENDING:
                    self._report(node.id, replace(shard, phase=outcome(shard), port=9000))

    def settle(self, catalog: Catalog, rounds: int = 10) -> int:
        """Plan and obey until a plan asks for nothing and nothing moves; say how many plans that took."""
        for count in range(1, rounds + 1):
            nothing = not self.plan(catalog).actions
            before = self.fleet
            self.obey()
            if nothing and self.fleet is before:
                return count
        raise AssertionError(f"the fleet did not settle in {rounds} plans: {self.plans[-1].actions}")

    def _report(self, node_id: str, shard: ShardState) -> None:
        connection = self.fleet.nodes[node_id].connection
        self.fleet = shard_reported(self.fleet, node_id, shard, connection=connection, now=self.now)


def starts(made: Plan) -> list[Start]:
    return [action for action in made.actions if isinstance(action, Start)]


def stops(made: Plan) -> list[Stop]:
    return [action for action in made.actions if isinstance(action, Stop)]
