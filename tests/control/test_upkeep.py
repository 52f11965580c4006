from typing import Any

import pytest
from fakes.catalogs import a_catalog, a_model
from fakes.clock import FakeClock
from fakes.command_log import CommandLog
from fakes.engine_adapter import FakeAdapter
from fakes.load import FakeLoad
from fakes.nodes import a_shard, an_introduction
from fakes.stores import MemoryHistoryStore, MemoryNodeStore

from llmgw.control.desired import Desired
from llmgw.control.fleet import ObservedFleet
from llmgw.control.history import NodeHistory
from llmgw.control.reconciler import Reconciler, Timings
from llmgw.control.roster import Roster
from llmgw.control.upkeep import Upkeep
from llmgw.core.errors import BadInput, Conflict, NotFound, StoreFailed
from llmgw.core.fleet.orders import RollState
from llmgw.core.fleet.shards import Phase
from llmgw.core.fleet.snapshot import NodeState
from llmgw.core.ids import Generation

MODEL = a_model(replicas=2)


class _Site:
    """The verbs over a fleet in memory; nodes in `known` have registered in an earlier start."""

    def __init__(self, *known: str) -> None:
        self.clock = FakeClock()
        self.store = MemoryNodeStore(*known)
        self.history = NodeHistory(MemoryHistoryStore(), self.clock)
        self.fleet = ObservedFleet(self.clock, record=self.history.record)
        self.commands = CommandLog()
        self.reconciler = Reconciler(
            Desired(a_catalog(MODEL), {}),
            self.fleet,
            self.commands,
            clock=self.clock,
            epoch=5,
            engines={"llama.cpp": FakeAdapter()},
            known=known,
            timings=Timings(),
            in_flight=FakeLoad(),
            publish=lambda table: None,
        )
        roster = Roster(self.store, self.fleet, clock=self.clock, known=known)
        self.upkeep = Upkeep(self.fleet, self.reconciler, roster, self.history, clock=self.clock)
        self._connections = 0

    def join(self, node: str = "n1", **given: Any) -> None:
        self._connections += 1
        self.fleet.register(an_introduction(node, **given), connection=self._connections, on_the_way={})

    def lose(self, node: str, *, age: bool = True) -> None:
        self.fleet.disconnected(node, connection=self.fleet.value.nodes[node].connection)
        if age:
            self.clock.advance(60)
            self.fleet.age(unreachable_after_s=1e9, lost_after_s=60)


async def test_what_is_wanted_of_a_node_is_stored_and_then_observed() -> None:
    site = _Site()
    site.join()

    state = await site.upkeep.set_state("n1", "draining")

    assert state == site.store.wanted["n1"] == site.fleet.value.nodes["n1"].state == NodeState.DRAINING


async def test_what_cannot_be_stored_is_not_wanted() -> None:
    site = _Site()
    site.join()
    site.store.broken = True

    with pytest.raises(StoreFailed):
        await site.upkeep.set_state("n1", "draining")

    assert site.fleet.value.nodes["n1"].state == NodeState.READY


@pytest.mark.parametrize("state", ["lost", "unreachable", "", "Ready"])
async def test_only_three_states_can_be_wanted(state: str) -> None:
    site = _Site("n1")

    with pytest.raises(BadInput) as caught:
        await site.upkeep.set_state("n1", state)

    assert caught.value.problems[0].message == f"wanted ready, draining, cordoned, found {state!r}"


async def test_a_node_that_nobody_knows_is_refused_and_one_known_from_before_is_not() -> None:
    site = _Site("n1")

    await site.upkeep.set_state("n1", "cordoned")
    site.join("n1")
    with pytest.raises(NotFound, match="no node is called 'n2'; known: n1"):
        await site.upkeep.set_state("n2", "cordoned")

    assert site.fleet.value.nodes["n1"].state == NodeState.CORDONED


async def test_a_lost_node_is_forgotten_with_its_events_and_registers_anew_as_ready() -> None:
    site = _Site("n1")
    site.join()
    await site.upkeep.set_state("n1", "cordoned")
    site.lose("n1")

    await site.upkeep.forget("n1")
    forgotten = "n1" in site.fleet.value.nodes, site.upkeep.events("n1"), site.store.nodes
    site.join()

    assert forgotten == (False, (), [])
    assert site.fleet.value.nodes["n1"].state == NodeState.READY


async def test_a_connected_node_is_not_forgotten() -> None:
    site = _Site("n1")
    site.join()

    with pytest.raises(Conflict, match="'llmgw ctl nodes drain n1' empties it, then end its agent"):
        await site.upkeep.forget("n1")


async def test_a_starting_server_no_longer_waits_for_a_node_that_is_forgotten() -> None:
    site = _Site("n1", "gone")
    site.join()
    before = site.reconciler.hold
    absent = site.upkeep.absent()

    await site.upkeep.forget("gone")

    assert before is not None
    assert absent == ("gone",)
    assert site.reconciler.hold is None
    assert site.upkeep.absent() == ()


async def test_a_node_that_returns_while_it_is_forgotten_stays() -> None:
    site = _Site("n1")
    site.join()
    site.lose("n1")
    site.store.meanwhile = site.join

    await site.upkeep.forget("n1")

    assert site.fleet.value.nodes["n1"].state == NodeState.READY


def test_an_alarm_is_cleared_once() -> None:
    site = _Site()
    for name in ("n1", "n2", "n3"):
        site.join(name)
    for name in ("n1", "n2"):
        site.lose(name, age=False)
    site.fleet.age(unreachable_after_s=1e9, lost_after_s=60)

    ended = site.upkeep.clear_alarm()

    assert ended.nodes == ("n1", "n2")
    with pytest.raises(Conflict, match="there is no alarm to clear"):
        site.upkeep.clear_alarm()


def test_a_roll_goes_on_until_it_is_done_and_is_not_begun_twice() -> None:
    site = _Site()
    site.join(shards=(a_shard(fingerprint="0" * 16), a_shard(ordinal=1, fingerprint="0" * 16)))

    roll = site.upkeep.roll(MODEL, every=False)

    assert roll.left == 2
    assert site.upkeep.orders.rolls["gemma"] == roll
    with pytest.raises(Conflict, match="2 of 2 replicas are left to replace"):
        site.upkeep.roll(MODEL, every=True)


def test_a_server_that_does_not_know_yet_what_runs_rolls_nothing() -> None:
    site = _Site("n1")

    with pytest.raises(Conflict, match="cannot be rolled yet: the server has just started"):
        site.upkeep.roll(MODEL, every=True)


def test_a_roll_that_has_nothing_to_do_is_done_and_may_be_begun_again() -> None:
    site = _Site()
    site.join()

    assert site.upkeep.roll(MODEL, every=False).state == RollState.DONE
    assert site.upkeep.roll(MODEL, every=True).state == RollState.DONE


def test_a_restart_takes_the_latest_copy_and_is_told_to_its_node() -> None:
    site = _Site()
    site.join("n1", shards=(a_shard(generation=(1, 1)), a_shard(ordinal=1)))

    shard = site.upkeep.restart("gemma.0")
    site.reconciler.step()

    assert shard.generation == Generation(1, 1)
    assert [(node, name) for node, name, _, _ in site.commands.stops] == [("n1", "gemma.0.0")]
    assert site.commands.starts == []


def test_what_cannot_be_restarted_says_why() -> None:
    site = _Site()
    site.join("n1", shards=(a_shard(phase=Phase.FAILED), a_shard(ordinal=1, phase=Phase.DRAINING)))
    site.join("n2", shards=(a_shard("other"),))
    site.lose("n2", age=False)

    for replica, why in (
        ("gemma.0", r"has failed \(1 in a row\) and is started again by itself, in 1 s"),
        ("gemma.1", "is ending already"),
        ("other.0", "cannot be restarted while its node is unreachable"),
    ):
        with pytest.raises(Conflict, match=why):
            site.upkeep.restart(replica)
    with pytest.raises(NotFound, match=r"no replica is called 'gemma.9'; did you mean"):
        site.upkeep.restart("gemma.9")
    site.clock.advance(5)
    with pytest.raises(Conflict, match="as soon as it fits somewhere"):
        site.upkeep.restart("gemma.0")
