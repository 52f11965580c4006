"""The one loop that brings what runs to what is wanted: gather, plan, carry out, publish.

It wakes on every change of what is wanted or observed, when a backoff is over, and once a second for the ageing of
silent nodes. Two kinds of silence are its own and are forgiven: the time before a starting server knows its nodes
(nothing is placed until every known node has registered or `start_grace_s` have passed), and a stall of this process
(when the second takes much longer, the timers of all nodes start again).
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Protocol

import msgspec

from llmgw.control.desired import Desired
from llmgw.control.fleet import ObservedFleet
from llmgw.control.table import Hold, make_table
from llmgw.core.fleet.shards import ShardSpec
from llmgw.core.ids import Generation
from llmgw.core.placement.place import Refused
from llmgw.core.reconcile import Action, Plan, Start, plan
from llmgw.core.routing.table import RouteTable
from llmgw.core.units import show_seconds
from llmgw.engines.engine import Engine
from llmgw.runtime.clock import Clock

log = logging.getLogger(__name__)

TICK_S = 1.0
STALL_S = 2.0
LEAST_SPACING_S = 0.001
_NAMED = 5


class Timings(msgspec.Struct, frozen=True, kw_only=True):
    """When a silent node counts as what, and how long a starting server waits for its nodes; seconds."""

    unreachable_after_s: float = 15.0
    lost_after_s: float = 60.0
    start_grace_s: float = 20.0


class Commands(Protocol):
    """How nodes are told what to do; False when a node cannot be told now."""

    def start(self, node_id: str, spec: ShardSpec) -> bool:
        """Tell a node to start a shard."""

    def stop(self, node_id: str, shard: str, generation: Generation, because: str) -> bool:
        """Tell a node to stop a shard."""


class Reconciler:
    """Owner of the generations of this server start, and the only one that places."""

    def __init__(
        self,
        desired: Desired,
        fleet: ObservedFleet,
        commands: Commands,
        *,
        clock: Clock,
        epoch: int,
        engines: Mapping[str, Engine],
        known: Collection[str],
        timings: Timings,
        publish: Callable[[RouteTable], None],
    ) -> None:
        """Take what it reads and whom it tells.

        Args:
            epoch: number of this server start.
            engines: adapters by the name of their engine.
            known: ids of the nodes that have registered in earlier starts.
            publish: takes each route table that differs from the one before.
        """
        self._desired = desired
        self._fleet = fleet
        self._commands = commands
        self._clock = clock
        self._epoch, self._counter = epoch, 0
        self._engines = engines
        self._awaited = frozenset(known)
        self._timings = timings
        self._publish = publish
        self._began_now = self._stepped_now = clock.now()
        self._placing = False
        self._table: RouteTable | None = None
        self._refused: Mapping[str, Refused] = {}
        self._woken = asyncio.Event()
        desired.listen(self.wake)
        fleet.listen(self.wake)

    def wake(self) -> None:
        """Plan again soon; many wakes together make one plan."""
        self._woken.set()

    @property
    def hold(self) -> Hold | None:
        """Why nothing is placed for now; None when placement goes on."""
        missing = sorted(self._awaited - self._fleet.value.nodes.keys())
        left_s = self._began_now + self._timings.start_grace_s - self._clock.now()
        if self._placing or not missing or left_s <= 0:
            return None
        more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
        names = ", ".join(missing[:_NAMED]) + more
        text = (
            f"the server has just started and places nothing until {names} registered too, "
            f"or {show_seconds(max(1, left_s))} passed: what runs there must not be started twice"
        )
        return Hold(text=text, for_s=left_s)

    async def run(self) -> None:
        """Reconcile for ever; only cancelling ends it."""
        while True:
            due = None
            try:
                due = self.step()
            except Exception:  # the border of an owned task: a fault in one step is tried again with the next
                log.exception("reconciling failed; trying again")
            await self._pause(due)

    def step(self) -> float | None:
        """Do all that is to be done now; returns when a backoff is over, monotonic seconds, or None."""
        now = self._clock.now()
        self._forgive_own_stall(now)
        self._fleet.age(
            unreachable_after_s=self._timings.unreachable_after_s, lost_after_s=self._timings.lost_after_s
        )
        due = None
        if self.hold is None:
            self._placing = True
            made = self._plan(now)
            for action in made.actions:
                self._carry_out(action)
            due = made.next_now
        self._publish_table(now)
        return due

    def _forgive_own_stall(self, now: float) -> None:
        late_s = now - self._stepped_now - TICK_S
        self._stepped_now = now
        if late_s > STALL_S:
            log.warning(
                "this process stalled for %s; the timers of all nodes start again", show_seconds(late_s)
            )
            self._fleet.forgive()

    def _plan(self, now: float) -> Plan:
        catalog = self._desired.catalog
        self._fleet.forget_failures({model.name for model in catalog.models})
        made = plan(catalog, self._fleet.value, epoch=self._epoch, counter=self._counter, now=now)
        self._epoch, self._counter = made.epoch, made.counter
        for model in made.refused.keys() - self._refused.keys():
            log.warning("%s", made.refused[model].summary())
        self._refused = made.refused
        return made

    def _carry_out(self, action: Action) -> None:
        # What cannot be told now shows as undone in the next plan.
        if isinstance(action, Start):
            spec = action.spec
            if self._commands.start(action.node, spec):
                log.info(
                    "starting %s (%s) on %s: %s", spec.shard, spec.generation, action.node, action.because
                )
                self._fleet.assigned(action.node, spec)
        elif self._commands.stop(action.node, action.shard, action.generation, action.because):
            log.info("stopping %s on %s: %s", action.shard, action.node, action.because)
            self._fleet.told_to_stop(action.node, action.shard, action.generation)

    def _publish_table(self, now: float) -> None:
        desired = self._desired
        table = make_table(
            desired.catalog,
            desired.created,
            self._fleet.value,
            self._engines,
            hold=self.hold,
            now=now,
            at=self._clock.at(),
        )
        if table != self._table:
            self._table = table
            self._publish(table)

    async def _pause(self, due: float | None) -> None:
        began = self._clock.now()
        # As long as the step took, at least: a thousand nodes that register at once make few plans, and never keep
        # this loop from everything else it does.
        spacing_s = min(max(LEAST_SPACING_S, began - self._stepped_now), TICK_S / 2)
        wait_s = TICK_S if due is None else min(TICK_S, max(0.0, due - began))
        await asyncio.sleep(spacing_s)
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, wait_s - spacing_s)):
                await self._woken.wait()
        self._woken.clear()
