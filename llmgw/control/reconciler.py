"""The one loop that brings what runs to what is wanted: gather, plan, carry out, publish.

It wakes on every change of what is wanted or observed, when a backoff is over, and once a second for the ageing of
silent nodes. Two kinds of silence are its own and are forgiven: the time before a starting server knows its nodes
(nothing is placed until every known node has registered or `start_grace_s` have passed), and a stall of this process
(when the second takes much longer, the timers of all nodes start again, and for as long as that grace nobody is lost:
agents may have hung up meanwhile). Where most of the fleet is silent, the fleet says so and loses nobody.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Protocol

import msgspec

from llmgw.control.candidates import Candidates
from llmgw.control.desired import Desired
from llmgw.control.drains import LOOK_EVERY_S, Drains, InFlight
from llmgw.control.drains import Commands as EndingCommands
from llmgw.control.fleet import ObservedFleet
from llmgw.control.table import Hold, make_table
from llmgw.core.fleet.catalog import Catalog, Model
from llmgw.core.fleet.events import Kind
from llmgw.core.fleet.orders import Orders, Roll, begin_roll
from llmgw.core.fleet.shards import ShardSpec
from llmgw.core.fleet.snapshot import Fleet, Node
from llmgw.core.fleet.strangers import Stranger, strangers
from llmgw.core.ids import Generation
from llmgw.core.placement.need import Need
from llmgw.core.placement.place import Refused, demands_of
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
    """When a silent node counts as what, how long a starting server waits for its nodes, and what ends for requests.

    All in seconds.
    """

    unreachable_after_s: float = 15.0
    lost_after_s: float = 60.0
    start_grace_s: float = 20.0
    drain_deadline_s: float = 60.0


class Commands(EndingCommands, Protocol):
    """How nodes are told what to do; False when a node cannot be told now."""

    def start(self, node_id: str, spec: ShardSpec) -> bool:
        """Tell a node to start a shard."""


class NeedsOf(Protocol):
    """Who knows what profiles need."""

    def of(self, catalog: Catalog, fleet: Fleet) -> Mapping[str, Need]:
        """Give the need of every profile of a catalog, by its fingerprint."""


class Reconciler:
    """Owner of the generations of this server start and of what was ordered, and the only one that places."""

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
        in_flight: InFlight,
        publish: Callable[[RouteTable], None],
        needs: NeedsOf | None = None,
    ) -> None:
        """Take what it reads and whom it tells.

        Args:
            epoch: number of this server start.
            engines: adapters by the name of their engine.
            known: ids of the nodes that have registered in earlier starts.
            in_flight: counts the requests that a copy of a replica is answering.
            publish: takes each route table that differs from the one before.
            needs: knows what profiles need beyond what the catalog says; nothing is known when None.
        """
        self._desired = desired
        self._fleet = fleet
        self._commands = commands
        self._clock = clock
        self._started_epoch = self._epoch = epoch
        self._counter = 0
        self._given: set[Generation] = set()
        self._had: set[str] = set()
        self._strangers: tuple[Stranger, ...] = ()
        self._engines = engines
        self._awaited = frozenset(known)
        self._timings = timings
        self._drains = Drains(commands, in_flight, deadline_s=timings.drain_deadline_s)
        self._publish = publish
        self._needs = needs
        self._orders = Orders()
        self._patient_until = clock.now()
        self._began_now = self._stepped_now = clock.now()
        self._placing = False
        self._table: RouteTable | None = None
        self._refused: Mapping[str, Refused] = {}
        self._candidates = Candidates()
        self._woken = asyncio.Event()
        desired.listen(self.wake)
        fleet.listen(self.wake)
        fleet.observe(self._look_at)

    def wake(self) -> None:
        """Plan again soon; many wakes together make one plan."""
        self._woken.set()

    @property
    def strangers(self) -> tuple[Stranger, ...]:
        """Engines that this server's database does not know, and that are left alone."""
        return self._strangers

    @property
    def orders(self) -> Orders:
        """What an operator ordered beside the catalog, as it stands."""
        return self._orders

    def roll(self, model: Model, *, every: bool) -> Roll:
        """Replace the stale replicas of a model, or `every` one; an earlier roll of it is over.

        One that has nothing to replace says why and is no order.
        """
        roll = begin_roll(model, self._fleet.value, every=every)
        if not roll.targets:
            return roll
        self._orders = msgspec.structs.replace(self._orders, rolls=self._orders.rolls | {model.name: roll})
        log.info("rolling %s: %d replicas are to be replaced", model.name, roll.left)
        self.wake()
        return roll

    def restart(self, replica: str, generation: Generation) -> None:
        """Let a replica of this generation end, and start it again."""
        restarts = self._orders.restarts | {replica: generation}
        self._orders = msgspec.structs.replace(self._orders, restarts=restarts)
        log.info("restarting %s (%s)", replica, generation)
        self.wake()

    def wait_no_longer_for(self, node_id: str) -> None:
        """Let a starting server place though this node has not registered."""
        self._awaited -= {node_id}
        self.wake()

    def needs_of(self, catalog: Catalog) -> Mapping[str, Need]:
        """Say what the profiles of a catalog need beyond what it says itself, by their fingerprint."""
        return {} if self._needs is None else self._needs.of(catalog, self._fleet.value)

    @property
    def refused(self) -> Mapping[str, Refused]:
        """Models of which a replica fits nowhere, as the last plan found."""
        return self._refused

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
            unreachable_after_s=self._timings.unreachable_after_s,
            lost_after_s=self._timings.lost_after_s,
            patient=now < self._patient_until,
        )
        due = None
        if self.hold is None:
            self._placing = True
            made = self._plan(now)
            for action in made.actions:
                self._carry_out(action)
            due = made.next_now
        self._drains.end_idle(self._fleet.value, now)
        self._publish_table(now)
        if self._drains.is_busy:
            due = now + LOOK_EVERY_S if due is None else min(due, now + LOOK_EVERY_S)
        return due

    def _forgive_own_stall(self, now: float) -> None:
        late_s = now - self._stepped_now - TICK_S
        self._stepped_now = now
        if late_s > STALL_S:
            log.warning(
                "this process stalled for %s; the timers of all nodes start again", show_seconds(late_s)
            )
            self._fleet.forgive()
            self._patient_until = now + self._timings.start_grace_s

    def _plan(self, now: float) -> Plan:
        catalog = self._desired.catalog
        self._fleet.forget_failures({model.name for model in catalog.models})
        self._note_strangers()
        needs = self.needs_of(catalog)
        made = plan(
            catalog,
            self._fleet.value,
            epoch=self._epoch,
            counter=self._counter,
            now=now,
            orders=self._orders,
            strange={(one.node, one.shard.shard) for one in self._strangers},
            needs=needs,
        )
        self._epoch, self._counter = made.epoch, made.counter
        self._note_orders(made.orders)
        for model in made.refused.keys() - self._refused.keys():
            log.warning("%s", made.refused[model].summary())
        self._refused = made.refused
        self._candidates.forget_all_but(self._fleet.value.nodes.keys())
        self._candidates.fit_nowhere(
            [
                (model.name, demand)
                for model in catalog.models
                if model.name in made.refused
                for _, demand in demands_of(model, needs)
            ]
        )
        return made

    def _look_at(self, before: Node, after: Node) -> None:
        """Plan at once when what a node says of itself makes it fit what fitted nowhere."""
        for one in self._candidates.said(before, after):
            self._fleet.note(after.id, Kind.CANDIDATE, f"now qualifies for {one.model}: {one.text}")
            self.wake()

    def _note_strangers(self) -> None:
        self._had.update(model.name for model in self._desired.catalog.models)
        before = self._strangers
        self._strangers = strangers(
            self._fleet.value, epoch=self._started_epoch, given=self._given, had=self._had
        )
        told = {(one.node, one.shard.shard) for one in before}
        for one in self._strangers:
            if (one.node, one.shard.shard) not in told:
                log.error("%s", one.text(self._started_epoch))

    def _carry_out(self, action: Action) -> None:
        # What cannot be told now shows as undone in the next plan.
        if isinstance(action, Start):
            spec = action.spec
            self._given.add(spec.generation)
            if self._commands.start(action.node, spec):
                log.info(
                    "starting %s (%s) on %s: %s", spec.shard, spec.generation, action.node, action.because
                )
                self._fleet.assigned(action.node, spec)
        elif self._drains.end(action, self._clock.now()):
            self._fleet.told_to_stop(action.node, action.shard, action.generation, action.because)

    def _note_orders(self, orders: Orders) -> None:
        for name, roll in orders.rolls.items():
            before = self._orders.rolls.get(name)
            if before is not None and before.state != roll.state:
                said = f": {roll.why}" if roll.why else f", {len(roll.targets)} replicas were replaced"
                log.info("the roll of %s is %s%s", name, roll.state, said)
        self._orders = orders

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
            refused=self._refused,
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
