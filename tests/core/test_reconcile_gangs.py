"""Replicas on several nodes, rule by rule and over random histories: all of a replica or nothing of it (RUN-11)."""

from collections.abc import Iterator

import pytest
from fakes.catalogs import a_catalog, a_model, a_profile
from fakes.fleets import AT, a_fleet
from fakes.nodes import a_shard, an_introduction
from fakes.simulated_fleet import SimulatedFleet, starts, stops
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from llmgw.core.fleet.catalog import Catalog
from llmgw.core.fleet.copies import Copy, observed_copies
from llmgw.core.fleet.hardware import Fabric
from llmgw.core.fleet.orders import Orders, begin_roll
from llmgw.core.fleet.shards import LIVE, Phase, ShardState
from llmgw.core.fleet.snapshot import (
    Fleet,
    Introduction,
    aged,
    disconnected,
    heard,
    intended,
    register,
    shard_reported,
)
from llmgw.core.fleet.snapshot import NodeState as State
from llmgw.core.ids import Generation
from llmgw.core.reconcile import Plan, plan

PROFILE = a_profile(nodes=2)
MODEL = a_model(profiles=(PROFILE,))
TWO = a_catalog(MODEL)


def _rank(rank: int, phase: Phase = Phase.READY, **given: object) -> ShardState:
    return a_shard(rank=rank, phase=phase, **({"ranks": 2} | given))


def _node(number: int, *shards: ShardState) -> Introduction:
    said: Introduction = an_introduction(f"n{number}", address=f"10.0.0.{number}", shards=shards)
    return said


def _plan(fleet: Fleet, now: float = 1e6) -> Plan:
    return plan(TWO, fleet, epoch=5, counter=0, now=now)


def _silent(fleet: Fleet, node: str, *, lost: bool) -> Fleet:
    fleet = disconnected(fleet, node, connection=fleet.nodes[node].connection, now=0.0, at=AT)
    return aged(fleet, now=60.0, at=AT, unreachable_after_s=1e9, lost_after_s=60.0) if lost else fleet


def _running(simulated: SimulatedFleet) -> list[tuple[str, str, Phase]]:
    return [
        (node.id, shard.shard, shard.phase)
        for node in simulated.fleet.nodes.values()
        for shard in node.shards.values()
    ]


@pytest.fixture
def running() -> SimulatedFleet:
    """Three nodes, and the two ranks of one replica running on the first two."""
    return SimulatedFleet(a_fleet(_node(1, _rank(0)), _node(2, _rank(1)), _node(3)))


# starting


def test_all_ranks_are_started_together_on_nodes_of_their_own_with_one_generation() -> None:
    made = _plan(a_fleet(_node(1), _node(2)))

    first, second = starts(made)
    assert {first.node, second.node} == {"n1", "n2"}
    assert [s.spec.shard for s in (first, second)] == ["gemma.0.0", "gemma.0.1"]
    assert [s.spec.rank for s in (first, second)] == [0, 1]
    assert {s.spec.generation for s in (first, second)} == {Generation(5, 1)}


def test_every_rank_is_told_who_the_others_are_and_where_to_meet() -> None:
    fleet = a_fleet(_node(1), _node(2))

    made = _plan(fleet)

    gang, other = (start.spec.gang for start in starts(made))
    assert gang is not None
    assert gang == other
    assert gang.addresses == tuple(fleet.nodes[start.node].address for start in starts(made))
    assert 21000 <= gang.port < 29000
    assert gang.ports == (gang.port + 1,) * 2


def test_ranks_on_one_fabric_are_told_its_adapters() -> None:
    def on(number: int, *adapters: Fabric) -> Introduction:
        said = _node(number)
        return replace(said, machine=replace(said.machine, fabrics=adapters))

    up = {"name": "ib", "attached": True}
    fleet = a_fleet(
        on(1, Fabric(adapter="mlx5_0", **up), Fabric(adapter="mlx5_1", **up)),
        on(2, Fabric(adapter="mlx5_4", **up), Fabric(name="other", adapter="mlx5_9", attached=True)),
        _node(3),
    )
    catalog = a_catalog(a_model(profiles=(a_profile(nodes=2, fabric="any"),)))

    made = plan(catalog, fleet, epoch=5, counter=0, now=0.0)

    gang = starts(made)[0].spec.gang
    assert gang is not None
    assert (gang.fabric, sorted(gang.adapters)) == ("ib", ["mlx5_0,mlx5_1", "mlx5_4"])


def test_a_later_generation_meets_at_another_port() -> None:
    fleet = a_fleet(_node(1), _node(2))

    first, second = (plan(TWO, fleet, epoch=5, counter=count, now=0.0) for count in (0, 1))

    ports = {start.spec.gang.port for made in (first, second) for start in starts(made) if start.spec.gang}
    assert len(ports) == 2


def test_a_replica_of_one_process_has_no_gang() -> None:
    made = plan(a_catalog(a_model()), a_fleet(_node(1)), epoch=5, counter=0, now=0.0)

    assert [start.spec.gang for start in starts(made)] == [None]


def test_nothing_is_started_where_there_are_too_few_nodes() -> None:
    made = _plan(a_fleet(_node(1)))

    assert made.actions == ()
    assert "gemma" in made.refused


def test_nothing_is_done_while_all_ranks_run(running: SimulatedFleet) -> None:
    assert running.plan(TWO).actions == ()


# the end of one rank is the end of all


@pytest.mark.parametrize(("failed", "other"), [(0, 1), (1, 0)])
def test_when_one_rank_fails_the_other_is_stopped_and_nothing_is_started_before_it_is_gone(
    failed: int, other: int
) -> None:
    nodes = {
        failed: _node(1, _rank(failed, Phase.FAILED, reason="out of memory")),
        other: _node(2, _rank(other)),
    }
    simulated = SimulatedFleet(a_fleet(nodes[failed], nodes[other]))
    simulated.now = 1e6

    first, meanwhile = simulated.plan(TWO), simulated.plan(TWO)
    simulated.obey()
    simulated.obey()
    last = simulated.plan(TWO)

    (stop,) = first.actions
    assert stop.shard == f"gemma.0.{other}"
    assert stop.because == f"rank {failed} on n1 failed (out of memory), and a replica lives and ends whole"
    assert meanwhile.actions == ()
    assert {start.spec.shard for start in starts(last)} == {"gemma.0.0", "gemma.0.1"}
    assert {start.spec.generation for start in starts(last)} == {Generation(5, 1)}


def test_the_rank_that_failed_stays_to_be_looked_at_until_its_replica_starts_again(
    running: SimulatedFleet,
) -> None:
    failed = _rank(1, Phase.FAILED, reason="out of memory")
    running.fleet = shard_reported(running.fleet, "n2", failed, connection=2, now=0.0)

    running.plan(TWO)
    running.obey()
    running.obey()
    waiting = running.plan(TWO)

    assert _running(running) == [("n2", "gemma.0.1", Phase.FAILED)]
    assert (waiting.actions, waiting.next_now) == ((), 1.0)


def test_when_all_ranks_fail_the_replica_waits_for_one_backoff(running: SimulatedFleet) -> None:
    for rank, node in enumerate(("n1", "n2")):
        running.fleet = shard_reported(
            running.fleet, node, _rank(rank, Phase.FAILED), connection=rank + 1, now=0.0
        )

    early = running.plan(TWO)
    running.now = 1.0
    due = running.plan(TWO)

    assert (early.actions, early.next_now) == ((), 1.0)
    assert [start.spec.rank for start in starts(due)] == [0, 1]


def test_a_failed_rank_whose_replica_starts_elsewhere_is_forgotten_where_it_was() -> None:
    fleet = a_fleet(_node(1, _rank(1, Phase.FAILED)), _node(2), _node(3))
    fleet = intended(fleet, "n1", State.CORDONED, at=AT)

    made = _plan(fleet)

    assert {start.node for start in starts(made)} == {"n2", "n3"}
    assert [(stop.node, stop.shard) for stop in stops(made)] == [("n1", "gemma.0.1")]


@pytest.mark.parametrize(("node", "left"), [("n1", "gemma.0.1"), ("n2", "gemma.0.0")])
def test_when_the_node_of_one_rank_is_lost_the_other_is_stopped_first_and_all_is_placed_anew(
    running: SimulatedFleet, node: str, left: str
) -> None:
    running.fleet = _silent(running.fleet, node, lost=True)

    first = running.plan(TWO)
    running.obey()
    meanwhile = running.plan(TWO)
    running.obey()
    last = running.plan(TWO)

    (stop,) = first.actions
    rank = 1 if left.endswith("0") else 0
    assert stop.shard == left
    assert stop.because == f"node {node}, where rank {rank} ran, is lost, and a replica lives and ends whole"
    assert meanwhile.actions == ()
    assert {start.node for start in starts(last)} == {"n1", "n2", "n3"} - {node}


def test_a_node_that_is_merely_unreachable_ends_nothing(running: SimulatedFleet) -> None:
    running.fleet = _silent(running.fleet, "n2", lost=False)

    assert running.plan(TWO).actions == ()


def test_a_node_that_comes_back_without_its_rank_ends_the_replica(running: SimulatedFleet) -> None:
    running.fleet = register(running.fleet, _node(2), connection=9, now=0.0, at=AT)

    (stop,) = running.plan(TWO).actions

    assert (stop.node, stop.shard) == ("n1", "gemma.0.0")
    assert stop.because == "rank 1 runs nowhere any more, and a replica lives and ends whole"


def test_what_a_lost_node_brings_back_of_a_replica_that_was_placed_anew_is_stopped(
    running: SimulatedFleet,
) -> None:
    running.fleet = _silent(running.fleet, "n1", lost=True)
    running.settle(TWO)

    running.fleet = register(running.fleet, _node(1, _rank(0)), connection=9, now=0.0, at=AT)
    back = running.plan(TWO)

    assert [(stop.node, stop.generation) for stop in stops(back)] == [("n1", Generation(1, 1))]
    assert starts(back) == []


def test_a_failed_replica_waits_for_the_end_of_an_earlier_generation_that_came_back() -> None:
    fleet = a_fleet(_node(1, _rank(1, Phase.FAILED, generation=(1, 2))), _node(2, _rank(0)), _node(3))
    simulated = SimulatedFleet(fleet)
    simulated.now = 1e6

    first = simulated.plan(TWO)
    simulated.obey()
    simulated.obey()
    last = simulated.plan(TWO)

    assert [(stop.node, stop.generation) for stop in stops(first)] == [("n2", Generation(1, 1))]
    assert starts(first) == []
    assert [start.spec.rank for start in starts(last)] == [0, 1]


# ending on purpose


def test_rank_zero_is_told_first_and_the_others_follow_it(running: SimulatedFleet) -> None:
    made = running.plan(a_catalog())

    first, second = stops(made)
    assert (first.shard, first.serves, first.follows) == ("gemma.0.0", True, False)
    assert (second.shard, second.serves, second.follows) == ("gemma.0.1", False, True)


def test_of_a_replica_that_is_not_ready_all_ranks_are_stopped_at_once() -> None:
    fleet = a_fleet(_node(1, _rank(0, Phase.STARTING)), _node(2, _rank(1)))

    made = plan(a_catalog(), fleet, epoch=5, counter=0, now=0.0)

    assert [(stop.shard, stop.serves, stop.follows) for stop in stops(made)] == [
        ("gemma.0.0", False, False),
        ("gemma.0.1", False, False),
    ]


def test_a_rank_that_could_not_be_told_is_told_when_its_node_is_back(running: SimulatedFleet) -> None:
    running.fleet = _silent(running.fleet, "n2", lost=False)

    first = running.plan(a_catalog())
    running.fleet = register(running.fleet, _node(2, _rank(1)), connection=9, now=0.0, at=AT)
    second = running.plan(a_catalog())

    assert [stop.shard for stop in stops(first)] == ["gemma.0.0"]
    assert [(stop.shard, stop.follows) for stop in stops(second)] == [("gemma.0.1", True)]


def test_fewer_replicas_end_whole_ones() -> None:
    fleet = a_fleet(
        _node(1, _rank(0), _rank(1, ordinal=1)),
        _node(2, _rank(1), _rank(0, ordinal=1)),
    )

    made = _plan(fleet)

    assert {stop.shard for stop in stops(made)} == {"gemma.1.0", "gemma.1.1"}
    assert starts(made) == []


def test_a_restarted_replica_ends_whole_and_starts_again_under_its_name(running: SimulatedFleet) -> None:
    running.orders = Orders(restarts={"gemma.0": Generation(1, 1)})

    first = running.plan(TWO)
    running.obey()
    meanwhile = running.plan(TWO)
    running.obey()
    last = running.plan(TWO)

    assert [stop.shard for stop in stops(first)] == ["gemma.0.0", "gemma.0.1"]
    assert meanwhile.actions == ()
    assert [start.spec.shard for start in starts(last)] == ["gemma.0.0", "gemma.0.1"]


def test_a_drained_node_gives_up_the_whole_replica_when_another_is_ready() -> None:
    simulated = SimulatedFleet(a_fleet(_node(1, _rank(0)), _node(2, _rank(1)), _node(3), _node(4)))
    simulated.fleet = intended(simulated.fleet, "n2", State.DRAINING, at=AT)

    first = simulated.plan(TWO)
    simulated.obey()
    last = simulated.plan(TWO)

    assert [start.spec.shard for start in starts(first)] == ["gemma.1.0", "gemma.1.1"]
    assert stops(first) == []
    assert [stop.shard for stop in stops(last)] == ["gemma.0.0", "gemma.0.1"]
    assert {stop.because for stop in stops(last)} == {
        "node n2 is drained, and enough other replicas are ready"
    }


def test_a_roll_replaces_a_replica_whole() -> None:
    simulated = SimulatedFleet(a_fleet(*(_node(n) for n in range(1, 5))))
    simulated.settle(TWO)
    simulated.orders = Orders(rolls={"gemma": begin_roll(MODEL, simulated.fleet, every=True)})

    simulated.settle(TWO)

    (copy,) = observed_copies(simulated.fleet)
    assert (copy.replica, copy.generation, copy.is_ready) == ("gemma.1", Generation(5, 2), True)
    assert simulated.orders.rolls["gemma"].left == 0


# two generations, two names


def test_an_older_generation_serves_until_every_rank_of_the_later_is_ready() -> None:
    older = _node(1, _rank(0)), _node(2, _rank(1))
    loading = (
        _node(3, _rank(0, Phase.READY, generation=(1, 2))),
        _node(4, _rank(1, Phase.STARTING, generation=(1, 2))),
    )
    fleet = a_fleet(*older, *loading)

    meanwhile = _plan(fleet)
    ready = shard_reported(fleet, "n4", _rank(1, generation=(1, 2)), connection=4, now=0.0)
    afterwards = _plan(ready)

    assert meanwhile.actions == ()
    assert [(stop.node, stop.shard) for stop in stops(afterwards)] == [
        ("n1", "gemma.0.0"),
        ("n2", "gemma.0.1"),
    ]


@pytest.mark.parametrize("order", [("old", "new"), ("new", "old")])
def test_one_process_that_two_nodes_tell_of_is_left_alone(order: tuple[str, str]) -> None:
    fleet = a_fleet(*(an_introduction(node, shards=(a_shard(),)) for node in order))
    fleet = _silent(fleet, "old", lost=False)
    catalog = a_catalog(a_model())

    meanwhile = plan(catalog, fleet, epoch=5, counter=0, now=0.0)
    lost = aged(fleet, now=60.0, at=AT, unreachable_after_s=1e9, lost_after_s=60.0)
    afterwards = plan(catalog, lost, epoch=5, counter=0, now=60.0)

    assert meanwhile.actions == ()
    assert afterwards.actions == ()
    assert lost.nodes["old"].shards == {}


def test_of_two_processes_with_one_generation_on_nodes_that_both_speak_one_is_stopped() -> None:
    fleet = a_fleet(*(an_introduction(node, shards=(a_shard(),)) for node in ("n1", "n2")))
    fleet = heard(fleet, "n1", connection=1, now=2.0, at=AT)

    (stop,) = plan(a_catalog(a_model()), fleet, epoch=5, counter=0, now=2.0).actions

    assert (stop.node, stop.because) == ("n1", "a second gemma.0 (1.1) stopped here, the same runs on n2")


# random histories

NODES = 5
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(
            ["plan", "plan", "obey", "obey", "fail", "vanish", "silent", "lost", "back", "drain"]
        ),
        st.integers(0, 30),
    ),
    max_size=40,
)
CATALOGS = st.builds(
    lambda nodes, replicas, other: a_catalog(
        a_model(replicas=replicas, profiles=(a_profile(nodes=nodes),)), a_model("other", replicas=other)
    ),
    st.integers(2, 3),
    st.integers(0, 2),
    st.integers(0, 1),
)


class _History:
    """A fleet to which anything may happen; what is planned is checked as it is carried out."""

    def __init__(self) -> None:
        self.simulated = SimulatedFleet(a_fleet(*(_node(number) for number in range(NODES))))
        self.connection = 100

    def live(self) -> list[tuple[str, ShardState]]:
        nodes = self.simulated.fleet.nodes.values()
        return [(n.id, s) for n in nodes if n.gone_now is None for s in n.shards.values() if s.phase in LIVE]

    def happens(self, what: str, which: int, catalog: Catalog) -> None:
        simulated, node = self.simulated, f"n{which % NODES}"
        simulated.now += 1.0
        if what == "plan":
            self.planned(catalog)
        elif what == "obey":
            simulated.obey(lambda shard: Phase.READY if which % 4 else Phase.STARTING)
        elif what in ("fail", "vanish") and (live := self.live()):
            self.ends(*live[which % len(live)], vanishes=what == "vanish")
        elif what in ("silent", "lost"):
            simulated.fleet = _silent(simulated.fleet, node, lost=what == "lost")
        elif what == "back":
            self.registers(node, tuple(simulated.fleet.nodes[node].shards.values()))
        elif what == "drain":
            intent = State.DRAINING if which % 2 else State.READY
            simulated.fleet = intended(simulated.fleet, node, intent, at=AT)

    def ends(self, node: str, shard: ShardState, *, vanishes: bool) -> None:
        if vanishes:
            left = (s for s in self.simulated.fleet.nodes[node].shards.values() if s.shard != shard.shard)
            self.registers(node, tuple(left))
        else:
            connection = self.simulated.fleet.nodes[node].connection
            failed = replace(shard, phase=Phase.FAILED)
            self.simulated.fleet = shard_reported(
                self.simulated.fleet, node, failed, connection=connection, now=self.simulated.now
            )

    def registers(self, node: str, shards: tuple[ShardState, ...]) -> None:
        self.connection += 1
        said = _node(int(node[1:]), *shards)
        self.simulated.fleet = register(
            self.simulated.fleet, said, connection=self.connection, now=self.simulated.now, at=AT
        )

    def planned(self, catalog: Catalog) -> None:
        before = self.simulated.fleet
        made = self.simulated.plan(catalog)
        by_replica: dict[str, list[tuple[str, int, Generation, int]]] = {}
        for start in starts(made):
            spec = start.spec
            by_replica.setdefault(spec.replica, []).append(
                (start.node, spec.rank, spec.generation, spec.profile.nodes)
            )
        for replica, seats in by_replica.items():
            nodes, ranks, generations, wanted = zip(*seats, strict=True)
            assert ranks == tuple(range(wanted[0])), f"{replica} is not started whole"
            assert len(set(nodes)) == len(nodes)
            assert len(set(generations)) == 1
            if wanted[0] > 1:
                assert not list(_running_of(before, replica)), f"{replica} runs already"


def _running_of(fleet: Fleet, replica: str) -> Iterator[ShardState]:
    for node in fleet.nodes.values():
        if node.state != State.LOST:
            yield from (s for s in node.shards.values() if s.replica == replica and s.phase in LIVE)


def _whole_or_over(copy: Copy) -> bool:
    return copy.is_ready or (copy.phase == Phase.FAILED and copy.is_over)


@settings(max_examples=300, deadline=None)
@given(CATALOGS, EVENTS)
def test_whatever_happens_replicas_start_whole_and_never_beside_an_earlier_generation(
    catalog: Catalog, events: list[tuple[str, int]]
) -> None:
    history = _History()

    for what, which in events:
        history.happens(what, which, catalog)


@settings(max_examples=200, deadline=None)
@given(CATALOGS, EVENTS)
def test_whatever_happened_no_part_of_a_replica_is_left_over(
    catalog: Catalog, events: list[tuple[str, int]]
) -> None:
    history = _History()
    for what, which in events:
        history.happens(what, which, catalog)
    for node in list(history.simulated.fleet.nodes.values()):
        history.registers(node.id, tuple(node.shards.values()))
        history.simulated.fleet = intended(history.simulated.fleet, node.id, State.READY, at=AT)

    history.simulated.now += 1e6
    history.simulated.settle(catalog)

    copies = observed_copies(history.simulated.fleet)
    refused = history.simulated.plans[-1].refused
    assert all(_whole_or_over(copy) for copy in copies)
    for model in catalog.models:
        ready = sum(copy.is_ready and copy.model == model.name for copy in copies)
        assert ready == model.replicas or model.name in refused
