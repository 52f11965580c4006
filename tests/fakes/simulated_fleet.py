"""A fleet that obeys: what a plan says is done to it, and its shards run or fail as the test wants."""

from collections.abc import Callable

from msgspec.structs import replace

from llmgw.core.fleet.catalog import Catalog
from llmgw.core.fleet.orders import Orders
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
        self.orders = Orders()
        self.plans: list[Plan] = []

    def plan(self, catalog: Catalog) -> Plan:
        """Plan and note in the fleet what nodes are told, as the reconciler does."""
        made = plan(
            catalog,
            self.fleet,
            epoch=self.epoch,
            counter=self.counter,
            now=self.now,
            orders=self.orders,
        )
        self.epoch, self.counter, self.orders = made.epoch, made.counter, made.orders
        self.plans.append(made)
        for action in made.actions:
            if isinstance(action, Start):
                self.fleet = assigned(self.fleet, action.node, action.spec)
            else:
                self.fleet = told_to_stop(self.fleet, action.node, action.shard, action.generation)
        return made

    def obey(self, outcome: Callable[[ShardState], Phase] = lambda shard: Phase.READY) -> None:
        """Let what was told to stop take its next step to its end, and what was starting reach its `outcome`."""
        for node in self.fleet.nodes.values():
            for shard in node.shards.values():
                if is_leaving(node, shard):
                    ends = Phase.DRAINING if shard.phase == Phase.READY else Phase.STOPPED
                    self._report(node.id, replace(shard, phase=ends))
                elif shard.phase in (Phase.PENDING, Phase.FETCHING, Phase.STARTING):
                    self._report(node.id, replace(shard, phase=outcome(shard), port=9000))

    def ready(self, model: str) -> int:
        """Count the replicas of a model that take requests on nodes that are connected."""
        return sum(
            shard.phase == Phase.READY and shard.model == model and not is_leaving(node, shard)
            for node in self.fleet.nodes.values()
            if node.gone_now is None
            for shard in node.shards.values()
        )

    def settle(self, catalog: Catalog, rounds: int = 20) -> int:
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
