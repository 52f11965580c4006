"""The verbs of an admin on what runs: empty a node or forget it, roll a model, restart a replica, end the alarm.

What is wanted of a node goes to the store first and to memory after that. A roll and a restart are kept in memory
alone: a server that starts anew has forgotten them, and whatever runs goes on.
"""

import logging
from collections.abc import Sequence

from llmgw.control.fleet import ObservedFleet
from llmgw.control.history import NodeHistory
from llmgw.control.reconciler import Reconciler
from llmgw.control.roster import Roster
from llmgw.core.errors import BadInput, Conflict, NotFound, Problem
from llmgw.core.fleet.catalog import Model
from llmgw.core.fleet.events import NodeEvent
from llmgw.core.fleet.orders import Orders, Roll
from llmgw.core.fleet.restarts import Attempts, retry_at
from llmgw.core.fleet.shards import Phase, ShardState
from llmgw.core.fleet.silence import Alarm
from llmgw.core.fleet.snapshot import Node, NodeState, is_leaving
from llmgw.core.shape import nearest
from llmgw.core.units import show_seconds
from llmgw.runtime.clock import Clock

log = logging.getLogger(__name__)

INTENTS = (NodeState.READY, NodeState.DRAINING, NodeState.CORDONED)
_AWAY = (NodeState.UNREACHABLE, NodeState.LOST)


class Upkeep:
    """Acts on nodes, rolls and restarts; owns nothing."""

    def __init__(
        self,
        fleet: ObservedFleet,
        reconciler: Reconciler,
        roster: Roster,
        history: NodeHistory,
        *,
        clock: Clock,
    ) -> None:
        self._fleet = fleet
        self._reconciler = reconciler
        self._roster = roster
        self._history = history
        self._clock = clock

    # nodes

    def events(self, node_id: str) -> tuple[NodeEvent, ...]:
        """Give the latest events of a node, oldest first."""
        return self._history.of(node_id)

    def absent(self) -> tuple[str, ...]:
        """List the nodes that are known from before and have not registered since the server started."""
        return tuple(sorted(self._roster.known - self._fleet.value.nodes.keys()))

    async def set_state(self, node_id: str, state: str) -> NodeState:
        """Make a node take work again, take no more, or give up what it has.

        Args:
            state: "ready", "cordoned" or "draining".

        Raises:
            NotFound: no node is called so.
            BadInput: there is no such state.
            StoreFailed: it could not be written, and nothing was changed.
        """
        if state not in INTENTS:
            wanted = f"wanted {', '.join(INTENTS)}, found {state!r}"
            raise BadInput("the state of a node cannot be that", [Problem(("state",), wanted)])
        self._check_known(node_id)
        intent = NodeState(state)
        await self._roster.intend(node_id, intent)
        self._fleet.intend(node_id, intent)
        log.info("node %s is to be %s", node_id, intent)
        return intent

    async def forget(self, node_id: str) -> None:
        """Forget a node that is gone for good.

        Raises:
            NotFound: no node is called so.
            Conflict: it is connected.
            StoreFailed: it could not be written, and nothing was changed.
        """
        self._check_known(node_id)
        self._check_away(node_id)
        await self._roster.forget(node_id)
        self._reconciler.wait_no_longer_for(node_id)
        node = self._fleet.value.nodes.get(node_id)
        if node is None or node.state in _AWAY:
            self._fleet.forget(node_id)
            self._history.forget(node_id)
        log.info("node %s was forgotten", node_id)

    def _check_known(self, node_id: str) -> None:
        known = self._roster.known | self._fleet.value.nodes.keys()
        if node_id not in known:
            others = nearest(node_id, list(known)) if known else "no node has ever registered"
            raise NotFound(f"no node is called {node_id!r}; {others}")

    def _check_away(self, node_id: str) -> None:
        node = self._fleet.value.nodes.get(node_id)
        if node is not None and node.state not in _AWAY:
            raise Conflict(
                f"node {node_id!r} is {node.state} and connected; only a node that is gone can be forgotten: "
                f"'llmgw ctl nodes drain {node_id}' empties it, then end its agent"
            )

    def clear_alarm(self) -> Alarm:
        """Take it that the nodes of the alarm are gone; what ran there is placed elsewhere when they are lost.

        Raises:
            Conflict: there is no alarm.
        """
        ended = self._fleet.accept_silence()
        if ended is None:
            raise Conflict("there is no alarm to clear")
        log.warning("an operator cleared the alarm: %s are gone", ", ".join(ended.nodes))
        return ended

    # models and replicas

    @property
    def orders(self) -> Orders:
        """What was ordered, as it stands."""
        return self._reconciler.orders

    def roll(self, model: Model, *, every: bool) -> Roll:
        """Replace the stale replicas of a model one by one, or `every` one.

        Raises:
            Conflict: it is being rolled already, or the server does not know yet what runs.
        """
        if (hold := self._reconciler.hold) is not None:
            raise Conflict(f"model {model.name!r} cannot be rolled yet: {hold.text}")
        before = self._reconciler.orders.rolls.get(model.name)
        if before is not None and before.is_rolling():
            raise Conflict(
                f"model {model.name!r} is being rolled already: {before.left} of {len(before.targets)} replicas are "
                "left to replace"
            )
        return self._reconciler.roll(model, every=every)

    def restart(self, replica: str) -> ShardState:
        """Let a replica finish what is in flight, stop it and start it again.

        Raises:
            NotFound: there is no such replica.
            Conflict: it cannot be restarted now; the message says why and what happens anyhow.
        """
        copies = self._copies(replica)
        node, shard = max(copies, key=lambda one: one[1].generation)
        if problem := self._restart_problem(node, shard):
            raise Conflict(problem)
        self._reconciler.restart(replica, shard.generation)
        return shard

    def _copies(self, replica: str) -> Sequence[tuple[Node, ShardState]]:
        nodes = [node for node in self._fleet.value.nodes.values() if node.state != NodeState.LOST]
        found = [(n, s) for n in nodes for s in n.shards.values() if s.replica == replica and s.rank == 0]
        if not found:
            known = sorted({shard.replica for node in nodes for shard in node.shards.values()})
            others = nearest(replica, known) if known else "no replica runs"
            raise NotFound(f"no replica is called {replica!r}; {others}")
        return found

    def _restart_problem(self, node: Node, shard: ShardState) -> str | None:
        name = f"replica {shard.replica!r} on {node.id}"
        if node.state == NodeState.UNREACHABLE:
            return f"{name} cannot be restarted while its node is unreachable; it can when the node is back"
        if is_leaving(node, shard):
            return f"{name} is ending already"
        if shard.phase == Phase.FAILED:
            attempts = self._fleet.value.attempts.get(shard.replica, Attempts())
            wait = max(0.0, retry_at(attempts) - self._clock.now())
            again = f"in {show_seconds(wait)}" if wait else "as soon as it fits somewhere"
            return f"{name} has failed ({attempts.count} in a row) and is started again by itself, {again}"
        return None
