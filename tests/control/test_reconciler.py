import asyncio
import logging
from contextlib import asynccontextmanager
from typing import Any

import pytest
from fakes.catalogs import a_catalog, a_model, a_profile
from fakes.clock import FakeClock
from fakes.command_log import CommandLog
from fakes.engine_adapter import FakeAdapter
from fakes.load import FakeLoad
from fakes.nodes import a_shard, an_introduction
from fakes.waiting import until
from msgspec.structs import replace

from llmgw.control.desired import Desired
from llmgw.control.fleet import ObservedFleet
from llmgw.control.reconciler import Reconciler, Timings
from llmgw.core.fleet.beat import Beat
from llmgw.core.fleet.catalog import Catalog
from llmgw.core.fleet.hardware import Memory
from llmgw.core.fleet.shards import Phase
from llmgw.core.fleet.snapshot import NodeState
from llmgw.core.ids import Generation
from llmgw.core.routing.table import RouteTable
from llmgw.core.units import GIB

ONE = a_catalog(a_model())


class _Plane:
    """A reconciler with all it reads and tells, under a clock that a test moves."""

    def __init__(self, catalog: Catalog = ONE, *, known: tuple[str, ...] = (), epoch: int = 5) -> None:
        self.clock = FakeClock()
        self.desired = Desired(catalog, {})
        self.fleet = ObservedFleet(self.clock)
        self.commands = CommandLog()
        self.load = FakeLoad()
        self.tables: list[RouteTable] = []
        self.reconciler = Reconciler(
            self.desired,
            self.fleet,
            self.commands,
            clock=self.clock,
            epoch=epoch,
            engines={"llama.cpp": FakeAdapter()},
            known=known,
            timings=Timings(),
            in_flight=self.load,
            publish=self.tables.append,
        )
        self.connections = 0

    def register(self, node: str = "n1", **given: Any) -> int:
        self.connections += 1
        self.fleet.register(an_introduction(node, **given), connection=self.connections, on_the_way={})
        return self.connections

    def pass_seconds(self, seconds: int, *heard: tuple[str, int]) -> None:
        """Let time pass as it does, a step a second; `heard` nodes give signs of life."""
        for _ in range(seconds):
            self.clock.advance(1)
            for node, connection in heard:
                self.fleet.heard(node, connection=connection)
            self.reconciler.step()

    def ready(self, node: str, connection: int) -> None:
        for shard in self.fleet.value.nodes[node].shards.values():
            if shard.phase == Phase.PENDING:
                said = replace(shard, phase=Phase.READY, port=9000)
                self.fleet.shard_reported(node, said, connection=connection)

    @property
    def started(self) -> list[str]:
        return [f"{spec.shard}@{node}" for node, spec in self.commands.starts]

    @property
    def stopped(self) -> list[str]:
        return [f"{shard}@{node}" for node, shard, _, _ in self.commands.stops]


@asynccontextmanager
async def _running(plane: _Plane):
    task = asyncio.create_task(plane.reconciler.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def test_what_is_wanted_is_started_once_and_routed_to_when_it_is_ready() -> None:
    plane = _Plane()
    connection = plane.register()

    plane.reconciler.step()
    plane.reconciler.step()
    before = plane.tables[-1].by_name["gemma"]
    plane.ready("n1", connection)
    plane.reconciler.step()

    assert plane.started == ["gemma.0.0@n1"]
    assert before.endpoints == ()
    assert [e.port for e in plane.tables[-1].by_name["gemma"].endpoints] == [9000]


def test_a_table_is_published_only_when_it_differs() -> None:
    plane = _Plane(a_catalog())

    for _ in range(5):
        plane.reconciler.step()

    assert plane.tables == [RouteTable()]


def test_a_replica_one_of_whose_ranks_cannot_be_told_is_taken_back_and_started_whole_later() -> None:
    plane = _Plane(a_catalog(a_model(profiles=(a_profile(nodes=2),))))
    first, _ = plane.register("n1"), plane.register("n2")
    plane.commands.deaf = {"n2"}

    plane.reconciler.step()
    plane.reconciler.step()
    half, taken_back = list(plane.started), list(plane.stopped)
    (pending,) = plane.fleet.value.nodes["n1"].shards.values()
    plane.fleet.shard_reported("n1", replace(pending, phase=Phase.STOPPED), connection=first)
    plane.commands.deaf = set()
    plane.reconciler.step()

    assert half == ["gemma.0.0@n1"]
    assert taken_back == ["gemma.0.0@n1"]
    assert plane.started[1:] == ["gemma.0.0@n1", "gemma.0.1@n2"]
    assert len({spec.generation for _, spec in plane.commands.starts[1:]}) == 1


def test_a_node_that_cannot_be_told_is_told_later() -> None:
    plane = _Plane()
    plane.register()
    plane.commands.deaf = {"n1"}

    plane.reconciler.step()
    nothing = plane.fleet.value.nodes["n1"].shards
    plane.commands.deaf = set()
    plane.reconciler.step()

    assert nothing == {}
    assert plane.started == ["gemma.0.0@n1"]


def test_a_stop_is_told_once_and_told_again_only_to_a_node_that_registered_anew() -> None:
    plane = _Plane(a_catalog())
    plane.register(shards=(a_shard(),))
    for _ in range(3):
        plane.reconciler.step()
    once = list(plane.stopped)

    plane.register(shards=(a_shard(),))
    plane.reconciler.step()

    assert once == ["gemma.0.0@n1"]
    assert plane.stopped == ["gemma.0.0@n1"] * 2


def test_a_stop_that_could_not_be_told_is_told_later() -> None:
    plane = _Plane(a_catalog())
    plane.register(shards=(a_shard(),))
    plane.commands.deaf = {"n1"}
    plane.reconciler.step()
    plane.commands.deaf = set()
    plane.reconciler.step()

    assert plane.stopped == ["gemma.0.0@n1"]


def test_a_node_that_dies_is_unreachable_then_lost_and_its_replicas_start_elsewhere() -> None:
    plane = _Plane()
    first, second = plane.register("n1", shards=(a_shard(),)), plane.register("n2")
    plane.reconciler.step()
    plane.fleet.disconnected("n1", connection=first)

    plane.pass_seconds(59, ("n2", second))
    meanwhile = plane.fleet.value.nodes["n1"].state, list(plane.started)
    plane.pass_seconds(1, ("n2", second))

    assert meanwhile == (NodeState.UNREACHABLE, [])
    assert plane.fleet.value.nodes["n1"].state == NodeState.LOST
    assert plane.started == ["gemma.0.0@n2"]


def test_a_silent_node_is_unreachable_after_fifteen_seconds_and_lost_sixty_later() -> None:
    plane = _Plane()
    plane.register()
    states = []

    for _ in range(80):
        plane.pass_seconds(1)
        states.append(plane.fleet.value.nodes["n1"].state)

    assert states.index(NodeState.UNREACHABLE) + 1 == 15
    assert states.index(NodeState.LOST) + 1 == 75


def test_a_stall_of_this_process_is_forgiven(caplog: pytest.LogCaptureFixture) -> None:
    plane = _Plane(a_catalog())
    plane.register()
    plane.reconciler.step()

    plane.clock.advance(300)
    plane.reconciler.step()

    assert plane.fleet.value.nodes["n1"].state == NodeState.READY
    assert "this process stalled for 4 min; the timers of all nodes start again" in caplog.text


def test_after_a_stall_agents_that_hung_up_have_time_to_return_before_anybody_is_lost_or_an_alarm_is_raised() -> (
    None
):
    plane = _Plane(a_catalog())
    nodes = [f"n{i}" for i in range(4)]
    connections = {node: plane.register(node) for node in nodes}
    plane.reconciler.step()

    plane.clock.advance(120)
    for node, connection in connections.items():
        plane.fleet.disconnected(node, connection=connection)
    plane.reconciler.step()
    plane.pass_seconds(15)
    quiet = plane.fleet.value.silence.alarm
    for node in nodes:
        plane.register(node)
    plane.pass_seconds(10, *((node, 5 + i) for i, node in enumerate(nodes)))

    assert quiet is plane.fleet.value.silence.alarm is None
    assert {node.state for node in plane.fleet.value.nodes.values()} == {NodeState.READY}


def test_after_a_stall_a_fleet_that_stays_away_is_an_alarm_and_is_not_lost() -> None:
    plane = _Plane()
    connections = {f"n{i}": plane.register(f"n{i}", shards=(a_shard(),) if i == 0 else ()) for i in range(4)}
    plane.reconciler.step()

    plane.clock.advance(120)
    for node in ("n0", "n1", "n2"):
        plane.fleet.disconnected(node, connection=connections[node])
    plane.reconciler.step()
    plane.pass_seconds(200, ("n3", connections["n3"]))

    assert plane.fleet.value.silence.alarm is not None
    assert plane.started == []


def test_a_replica_with_requests_in_flight_is_drained_and_looked_at_again_soon() -> None:
    plane = _Plane(a_catalog())
    plane.register(shards=(a_shard(),))
    plane.load.counts["gemma.0", Generation(1, 1)] = 1

    due = plane.reconciler.step()
    draining = plane.tables, list(plane.stopped)
    plane.load.counts.clear()
    plane.reconciler.step()

    assert due == pytest.approx(0.2)
    assert [deadline for *_, deadline in plane.commands.drains] == [60.0]
    assert draining == ([RouteTable()], [])
    assert plane.stopped == ["gemma.0.0@n1"]


def test_a_failed_replica_that_a_restarted_server_hears_of_counts_as_one_failure() -> None:
    plane = _Plane()
    plane.register(shards=(a_shard(phase=Phase.FAILED),))

    first = plane.reconciler.step()
    plane.pass_seconds(1)
    again = plane.started
    state = plane.fleet.value.nodes["n1"].shards["gemma.0.0"]
    plane.fleet.shard_reported("n1", replace(state, phase=Phase.FAILED), connection=1)

    assert first == 1.0
    assert again == ["gemma.0.0@n1"]
    assert plane.reconciler.step() == 1.0 + 2.0


def test_a_roll_of_a_model_that_leaves_is_over() -> None:
    model = a_model()
    plane = _Plane(a_catalog(model))
    plane.register(shards=(a_shard(fingerprint="0" * 16),))

    plane.reconciler.roll(model, every=False)
    plane.desired.take(a_catalog(), plane.clock.at())
    plane.reconciler.step()

    assert plane.reconciler.orders.rolls == {}


def test_the_end_of_a_roll_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    model = a_model()
    plane = _Plane(a_catalog(model))
    connection = plane.register(shards=(a_shard(fingerprint="0" * 16),))
    caplog.set_level(logging.INFO)

    plane.reconciler.roll(model, every=False)
    plane.reconciler.step()
    plane.ready("n1", connection)
    plane.reconciler.step()
    plane.reconciler.step()

    assert plane.started == ["gemma.1.0@n1"]
    assert plane.stopped == ["gemma.0.0@n1"]
    assert "the roll of gemma is done, 1 replicas were replaced" in caplog.text


def test_a_starting_server_places_nothing_until_every_known_node_has_registered() -> None:
    plane = _Plane(known=("n1", "n2"))
    plane.register("n1")
    plane.reconciler.step()
    held, nothing = plane.reconciler.hold, list(plane.started)

    plane.register("n2", shards=(a_shard(),))
    plane.reconciler.step()

    assert held is not None
    assert held.text.startswith("the server has just started and places nothing until n2 registered too")
    assert nothing == []
    assert plane.started == []
    assert plane.reconciler.hold is None


def test_a_starting_server_stops_nothing_either_while_it_waits() -> None:
    plane = _Plane(a_catalog(), known=("n1", "n2"))
    plane.register("n1", shards=(a_shard(),))

    plane.reconciler.step()

    assert plane.stopped == []


def test_a_starting_server_waits_no_longer_than_its_grace() -> None:
    plane = _Plane(known=("n1", "away"))
    connection = plane.register("n1")

    plane.pass_seconds(19, ("n1", connection))
    held = plane.reconciler.hold
    nothing = list(plane.started)
    plane.pass_seconds(1, ("n1", connection))

    assert held is not None
    assert held.for_s == 1.0
    assert nothing == []
    assert plane.started == ["gemma.0.0@n1"]


def test_the_hold_is_why_a_model_is_not_served_and_names_a_few_of_many_nodes() -> None:
    plane = _Plane(known=tuple(f"n{i}" for i in range(9)))

    plane.reconciler.step()

    route = plane.tables[-1].by_name["gemma"]
    assert "until n0, n1, n2, n3, n4 and 4 more registered too, or 20 s passed" in (route.why_not or "")
    assert route.retry_after_s == 25.0


def test_placement_that_has_begun_is_not_held_again_by_a_node_that_goes() -> None:
    plane = _Plane(known=("n1",))
    connection = plane.register("n1")
    plane.reconciler.step()

    plane.fleet.disconnected("n1", connection=connection)

    assert plane.reconciler.hold is None


def test_generations_grow_over_all_starts_and_models() -> None:
    plane = _Plane(a_catalog(a_model("a", replicas=2), a_model("b")))
    plane.register()
    plane.reconciler.step()
    plane.desired.take(a_catalog(a_model("a", replicas=3)), plane.clock.at())
    plane.reconciler.step()

    generations = [spec.generation for _, spec in plane.commands.starts]
    assert generations == [Generation(5, n) for n in range(1, 5)]


def test_a_backoff_tells_when_to_plan_again() -> None:
    plane = _Plane()
    plane.register(shards=(a_shard(phase=Phase.FAILED),))

    assert plane.reconciler.step() == 1.0


def test_failures_of_models_that_left_are_forgotten() -> None:
    plane = _Plane(a_catalog())
    plane.register(shards=(a_shard(phase=Phase.FAILED),))

    plane.reconciler.step()

    assert plane.fleet.value.attempts == {}


def test_a_refusal_is_logged_when_it_begins_and_not_every_second(caplog: pytest.LogCaptureFixture) -> None:
    plane = _Plane(a_catalog(a_model(profiles=(a_profile(engine="llama.cpp", min_memory_gb=1000),))))
    connection = plane.register()
    caplog.set_level(logging.WARNING)

    plane.pass_seconds(5, ("n1", connection))

    said = [r.getMessage() for r in caplog.records]
    assert len(said) == 1
    assert said[0].startswith("model 'gemma' fits on none of 1 nodes: n1: memory: needs 1000.0 GiB")


async def test_the_loop_wakes_on_changes_of_what_is_wanted_and_of_what_is_observed() -> None:
    plane = _Plane(a_catalog())

    async with _running(plane):
        plane.register()
        plane.desired.take(ONE, plane.clock.at())
        await until(lambda: plane.started)
        plane.ready("n1", 1)
        await until(lambda: plane.tables[-1].by_name["gemma"].endpoints)
        plane.desired.take(a_catalog(), plane.clock.at())
        await until(lambda: plane.stopped)

    assert plane.started == ["gemma.0.0@n1"]
    assert plane.stopped == ["gemma.0.0@n1"]


async def test_the_loop_outlives_a_fault(caplog: pytest.LogCaptureFixture) -> None:
    plane = _Plane()
    failing = plane.register()
    faults = iter([RuntimeError("no luck")])

    def publish(table: RouteTable) -> None:
        for fault in faults:
            raise fault
        plane.tables.append(table)

    plane.reconciler._publish = publish
    async with _running(plane):
        await until(lambda: caplog.records)
        plane.fleet.shard_reported("n1", a_shard("other"), connection=failing)
        await until(lambda: plane.stopped)

    assert "reconciling failed; trying again" in caplog.text


async def test_many_changes_together_make_few_plans() -> None:
    plane = _Plane(a_catalog())

    async with _running(plane):
        for number in range(500):
            plane.register(f"n{number}")
        plane.desired.take(a_catalog(a_model(replicas=3)), plane.clock.at())
        await until(lambda: len(plane.started) == 3)

    assert len(plane.tables) <= 3


async def test_a_node_whose_memory_grew_qualifies_and_is_planned_for_at_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    plane = _Plane(a_catalog(a_model(profiles=(a_profile(min_memory_gb=8),))))
    connection = plane.register(free_gb=3)
    memory = Memory(total_bytes=9 * GIB, available_bytes=9 * GIB)
    with caplog.at_level(logging.INFO):
        async with _running(plane):
            await until(lambda: plane.tables)
            plane.fleet.heard("n1", connection=connection, said=Beat(memory=memory))
            await until(lambda: plane.started)

    assert plane.started == ["gemma.0.0@n1"]
    assert "node n1: now qualifies for gemma: memory 3.0 GiB -> 9.0 GiB" in caplog.text
