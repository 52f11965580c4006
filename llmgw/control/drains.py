"""Engine processes that are to end: each finishes what it has in flight, within a deadline, and then ends at once.

The route table drops such a process in the same turn of the loop, so that its requests only become fewer. An agent that
is told to drain stops its process by itself when the deadline is over, whatever becomes of this server.
"""

import logging
from typing import Protocol

import msgspec

from llmgw.core.fleet.shards import LIVE
from llmgw.core.fleet.snapshot import Fleet, NodeState, is_leaving
from llmgw.core.ids import Generation, shard_id
from llmgw.core.reconcile import Stop

log = logging.getLogger(__name__)

LOOK_EVERY_S = 0.2
OVERDUE_S = 5.0
"""An agent ends what it drains by itself; one that has not after this much more than the deadline is told to."""
FOLLOWS_S = 30.0
"""How much longer than rank 0's deadline the other ranks have: what rank 0 takes to end."""


class InFlight(Protocol):
    """What the router has under way."""

    def count(self, replica: str, generation: Generation) -> int:
        """Count the requests that a copy of a replica is answering."""


class Commands(Protocol):
    """How nodes are told to end something; False when a node cannot be told now."""

    def stop(self, node_id: str, shard: str, generation: Generation, because: str) -> bool:
        """Tell a node to stop a shard at once."""

    def drain(
        self, node_id: str, shard: str, generation: Generation, deadline_s: float, because: str
    ) -> bool:
        """Tell a node to let a shard finish for at most `deadline_s` seconds, and to stop it then."""


class _Drain(msgspec.Struct, frozen=True):
    replica: str
    generation: Generation
    overdue_now: float
    follows: bool


class Drains:
    """Owner of what is draining."""

    def __init__(self, commands: Commands, in_flight: InFlight, *, deadline_s: float) -> None:
        self._commands = commands
        self._in_flight = in_flight
        self._deadline_s = deadline_s
        self._drains: dict[tuple[str, str], _Drain] = {}

    @property
    def is_busy(self) -> bool:
        """Tell whether something is draining, so that it is worth to look again soon."""
        return bool(self._drains)

    def end(self, stop: Stop, now: float) -> bool:
        """Let a shard end; False when its node cannot be told now."""
        count = self._in_flight.count(stop.replica, stop.generation) if stop.serves else 0
        if not count and not stop.follows:
            log.info("stopping %s (%s) on %s: %s", stop.shard, stop.generation, stop.node, stop.because)
            return self._commands.stop(stop.node, stop.shard, stop.generation, stop.because)
        deadline_s = self._deadline_s + (FOLLOWS_S if stop.follows else 0.0)
        if not self._commands.drain(stop.node, stop.shard, stop.generation, deadline_s, stop.because):
            return False
        what = "when rank 0 is gone" if stop.follows else f"{count} requests in flight"
        log.info(
            "draining %s (%s) on %s, %s, at most %g s: %s",
            stop.shard,
            stop.generation,
            stop.node,
            what,
            deadline_s,
            stop.because,
        )
        overdue_now = now + deadline_s + OVERDUE_S
        self._drains[stop.node, stop.shard] = _Drain(stop.replica, stop.generation, overdue_now, stop.follows)
        return True

    def end_idle(self, fleet: Fleet, now: float) -> None:
        """Stop what has nothing in flight any more or is overdue, and forget what has ended."""
        for (node_id, name), drain in tuple(self._drains.items()):
            node = fleet.nodes.get(node_id)
            shard = node.shards.get(name) if node else None
            if node is None or shard is None or shard.generation != drain.generation:
                del self._drains[node_id, name]
            elif not is_leaving(node, shard):
                # The node was away and never heard of it; whether it still is to end is decided anew.
                del self._drains[node_id, name]
            elif (because := self._why_over(drain, fleet, now)) and self._commands.stop(
                node_id, name, drain.generation, because
            ):
                log.info("stopping %s (%s) on %s: %s", name, drain.generation, node_id, because)
                del self._drains[node_id, name]

    def _why_over(self, drain: _Drain, fleet: Fleet, now: float) -> str | None:
        if drain.follows:
            if not _runs(fleet, shard_id(drain.replica, 0), drain.generation):
                return "rank 0 of its replica is gone"
        elif not self._in_flight.count(drain.replica, drain.generation):
            return "it has finished what was in flight"
        return "its time to finish is over" if now >= drain.overdue_now else None


def _runs(fleet: Fleet, shard: str, generation: Generation) -> bool:
    """Tell whether a shard of this generation runs on any node that is not lost."""
    nodes = (node for node in fleet.nodes.values() if node.state != NodeState.LOST)
    found = (node.shards.get(shard) for node in nodes)
    return any(
        state is not None and state.generation == generation and state.phase in LIVE for state in found
    )
