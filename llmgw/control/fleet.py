"""The fleet as it is observed: one value, written here and nowhere else.

Every method takes one observation at the clock's time, hands it to the core and keeps what comes back. Who listens is
woken when something changed that a decision may hang on; a mere sign of life wakes nobody. What is different afterwards
is told as events.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from datetime import datetime

from llmgw.core.fleet import snapshot
from llmgw.core.fleet.beat import Beat
from llmgw.core.fleet.events import Kind, NodeEvent, alarm_events, node_events
from llmgw.core.fleet.shards import Phase, ShardSpec, ShardState
from llmgw.core.fleet.silence import Alarm, alarm_text
from llmgw.core.fleet.snapshot import Fleet, Introduction, Node, NodeState
from llmgw.core.ids import Generation
from llmgw.runtime.clock import Clock

log = logging.getLogger(__name__)

_NOTHING_BESIDE = Beat()
_BAD = frozenset({NodeState.UNREACHABLE, NodeState.LOST})


class ObservedFleet:
    """Sole writer of the observed fleet; read its `value` whenever it is needed, and never keep it for long."""

    def __init__(
        self,
        clock: Clock,
        *,
        intents: Mapping[str, NodeState] | None = None,
        record: Callable[[NodeEvent], None] | None = None,
    ) -> None:
        """Take what is known before anything is observed.

        Args:
            intents: what an operator wants of nodes; all others are to be ready.
            record: takes each event; it must not wait.
        """
        self._clock = clock
        self._value = Fleet(intents=dict(intents or {}))
        self._record = record or _unrecorded
        self._listeners: list[Callable[[], None]] = []
        self._observers: list[Callable[[Node, Node], None]] = []

    @property
    def value(self) -> Fleet:
        """The fleet as it is known now."""
        return self._value

    def listen(self, wake: Callable[[], None]) -> None:
        """Call `wake` after every change that a decision may hang on; it must not wait."""
        self._listeners.append(wake)

    def observe(self, look: Callable[[Node, Node], None]) -> None:
        """Call `look` with a node before and after all that it says of itself, often; it must not wait."""
        self._observers.append(look)

    def note(self, node_id: str, kind: Kind, text: str) -> None:
        """Log and record what came about at a node."""
        log.info("node %s: %s", node_id, text)
        self._record(NodeEvent(at=self._clock.at(), node=node_id, kind=kind, text=text))

    def register(
        self,
        said: Introduction,
        *,
        connection: int,
        on_the_way: Mapping[str, Generation],
        protocol: int | None = None,
    ) -> None:
        """Take a Register.

        Args:
            on_the_way: what was started on this connection and not acknowledged yet.
            protocol: that the agent speaks, as in Node.
        """
        now, at = self._clock.now(), self._clock.at()
        before = self._value.nodes.get(said.node)
        self._take(
            snapshot.register(
                self._value,
                said,
                connection=connection,
                now=now,
                at=at,
                on_the_way=on_the_way,
                protocol=protocol,
            ),
            said.node,
        )
        self._show_observers(before)

    def heard(
        self,
        node_id: str,
        *,
        connection: int,
        said: Beat = _NOTHING_BESIDE,
    ) -> None:
        """Take a sign of life and what was said beside it."""
        before = self._value.nodes.get(node_id)
        fleet = snapshot.heard(
            self._value,
            node_id,
            connection=connection,
            now=self._clock.now(),
            at=self._clock.at(),
            said=said,
        )
        after = fleet.nodes.get(node_id)
        same = before and after and (before.state, before.engines) == (after.state, after.engines)
        self._take(fleet, node_id, wakes=not same)
        self._show_observers(before)

    def shard_reported(self, node_id: str, said: ShardState, *, connection: int) -> None:
        """Take one transition of an engine process, or how far the download is that it waits for."""
        before = self._value.nodes.get(node_id)
        known = before.shards.get(said.shard) if before else None
        fleet = snapshot.shard_reported(
            self._value, node_id, said, connection=connection, now=self._clock.now()
        )
        # Every second of a download changes a number, and no decision hangs on it.
        going = known is not None and (known.generation, known.phase) == (said.generation, Phase.FETCHING)
        self._take(fleet, node_id, wakes=not (going and said.phase == Phase.FETCHING))

    def assigned(self, node_id: str, spec: ShardSpec) -> None:
        """Note that a node was told to start a shard."""
        self._take(snapshot.assigned(self._value, node_id, spec), node_id)

    def told_to_stop(self, node_id: str, shard: str, generation: Generation, because: str) -> None:
        """Note that a node was told to stop a shard, and why."""
        self._take(snapshot.told_to_stop(self._value, node_id, shard, generation), node_id)
        known = self._value.nodes[node_id].shards.get(shard)
        what = f"{known.replica if known else shard} ({generation}) is to end: {because}"
        self._record(NodeEvent(at=self._clock.at(), node=node_id, kind=Kind.REPLICA, text=what))

    def start_refused(self, node_id: str, spec: ShardSpec, reason: str, *, connection: int) -> None:
        """Note that a node would not take a start."""
        now = self._clock.now()
        self._take(
            snapshot.start_refused(self._value, node_id, spec, reason, connection=connection, now=now),
            node_id,
        )

    def stop_taken(self, node_id: str, shard: str, generation: Generation, *, connection: int) -> None:
        """Note that a node has taken a stop."""
        self._take(
            snapshot.stop_taken(self._value, node_id, shard, generation, connection=connection), node_id
        )

    def disconnected(self, node_id: str, *, connection: int) -> None:
        """Note that a connection ended."""
        now, at = self._clock.now(), self._clock.at()
        self._take(
            snapshot.disconnected(self._value, node_id, connection=connection, now=now, at=at), node_id
        )

    def age(self, *, unreachable_after_s: float, lost_after_s: float, patient: bool = False) -> None:
        """Move silent nodes on, to unreachable and to lost; none is lost while the silence may be our own."""
        before = self._value.silence.alarm
        at = self._clock.at()
        self._take(
            snapshot.aged(
                self._value,
                now=self._clock.now(),
                at=at,
                unreachable_after_s=unreachable_after_s,
                lost_after_s=lost_after_s,
                patient=patient,
            )
        )
        self._tell_of_alarm(before, at)

    def accept_silence(self) -> Alarm | None:
        """Take an operator's word that the nodes of the alarm are gone; returns the alarm that this ends, if any."""
        before, at = self._value.silence.alarm, self._clock.at()
        self._take(snapshot.silence_accepted(self._value), wakes=before is not None)
        self._tell_of_alarm(before, at)
        return before

    def intend(self, node_id: str, intent: NodeState) -> None:
        """Take what an operator wants of a node, registered or not."""
        self._take(snapshot.intended(self._value, node_id, intent, at=self._clock.at()), node_id)

    def contested(self, node_id: str, where: str) -> None:
        """Note that another agent tried to register as this node, which is there."""
        fleet = snapshot.contested(self._value, node_id, where, now=self._clock.now())
        self._take(fleet, node_id, wakes=False)

    def forget(self, node_id: str) -> None:
        """Forget a node that is gone for good."""
        self._take(snapshot.forgotten(self._value, node_id))

    def forgive(self) -> None:
        """Start the timers of all nodes again: the silence was our own."""
        self._take(snapshot.forgiven(self._value, now=self._clock.now()), wakes=False)

    def forget_failures(self, models: Collection[str]) -> None:
        """Forget the failures of replicas whose model is none of `models`."""
        self._take(snapshot.forgetting(self._value, models), wakes=False)

    def _show_observers(self, before: Node | None) -> None:
        after = None if before is None else self._value.nodes.get(before.id)
        if before is not None and after is not None and after is not before:
            for look in self._observers:
                look(before, after)

    def _take(self, fleet: Fleet, node_id: str | None = None, *, wakes: bool = True) -> None:
        before, self._value = self._value, fleet
        if fleet is before:
            return
        for name in fleet.nodes if node_id is None else (node_id,):
            old, new = before.nodes.get(name), fleet.nodes.get(name)
            if new is not None and new is not old:
                self._tell(old, new)
        if wakes:
            for wake in self._listeners:
                wake()

    def _tell(self, before: Node | None, after: Node) -> None:
        for event in node_events(before, after, self._clock.at()):
            # Transitions of engine processes are logged where they are commanded and where they happen.
            level = logging.WARNING if after.state in _BAD else logging.INFO
            if event.kind != Kind.REPLICA:
                log.log(level, "node %s: %s", event.node, event.text)
            self._record(event)

    def _tell_of_alarm(self, before: Alarm | None, at: datetime) -> None:
        after = self._value.silence.alarm
        if after is before:
            return
        if after is None:
            log.warning("the alarm of silence is over")
        else:
            log.warning("alarm: %s", alarm_text(after))
        for event in alarm_events(before, after, at):
            self._record(event)


def _unrecorded(event: NodeEvent) -> None:
    """Record nothing."""
