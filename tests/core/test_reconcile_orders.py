"""Draining nodes, rolling models, restarting replicas: rule by rule, and over random fleets nothing goes too early."""

from itertools import cycle

from fakes.catalogs import a_catalog, a_model, a_profile
from fakes.fleets import AT, a_fleet
from fakes.nodes import a_shard, an_introduction
from fakes.simulated_fleet import SimulatedFleet, starts, stops
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from llmgw.core.fleet.catalog import Catalog, Model
from llmgw.core.fleet.orders import Orders, Roll, RollState, begin_roll
from llmgw.core.fleet.shards import Phase, ShardState
from llmgw.core.fleet.snapshot import Fleet, aged, disconnected, heard, intended
from llmgw.core.fleet.snapshot import NodeState as State
from llmgw.core.ids import Generation
from llmgw.core.units import GIB

MODEL = a_model()
ONE = a_catalog(MODEL)
STALE = "0123456789abcdef"


def _simulated(*said: object, draining: tuple[str, ...] = ()) -> SimulatedFleet:
    fleet = a_fleet(*said)  # type: ignore[arg-type]
    for node in draining:
        fleet = intended(fleet, node, State.DRAINING, at=AT)
    return SimulatedFleet(fleet)


def _rolling(simulated: SimulatedFleet, model: Model = MODEL, *, every: bool = False) -> SimulatedFleet:
    simulated.orders = Orders(rolls={model.name: begin_roll(model, simulated.fleet, every=every)})
    return simulated


def _roll(simulated: SimulatedFleet) -> Roll:
    return simulated.orders.rolls["gemma"]


def _running(simulated: SimulatedFleet) -> dict[str, tuple[str, Phase]]:
    return {
        shard.replica: (node.id, shard.phase)
        for node in simulated.fleet.nodes.values()
        for shard in node.shards.values()
    }


def _fails(simulated: SimulatedFleet, catalog: Catalog) -> None:
    """Let everything that starts fail."""
    simulated.plan(catalog)
    simulated.obey(lambda shard: Phase.FAILED)
    simulated.plan(catalog)


# draining a node


def test_a_replica_on_a_node_that_is_drained_is_started_elsewhere_and_serves_until_that_is_ready() -> None:
    simulated = _simulated(
        an_introduction("n1", shards=(a_shard(),)), an_introduction("n2"), draining=("n1",)
    )

    first, meanwhile = simulated.plan(ONE), simulated.plan(ONE)
    simulated.obey()
    last = simulated.plan(ONE)

    (start,) = first.actions
    assert (start.node, start.spec.shard) == ("n2", "gemma.1.0")
    assert start.because.startswith("it takes over from gemma.0 on n1")
    assert meanwhile.actions == ()
    (stop,) = last.actions
    assert (stop.node, stop.shard, stop.serves) == ("n1", "gemma.0.0", True)
    assert stop.because == "node n1 is drained, and enough other replicas are ready"


def test_all_replicas_of_a_drained_node_are_replaced_at_once() -> None:
    shards = tuple(a_shard(ordinal=i) for i in range(3))
    simulated = _simulated(an_introduction("n1", shards=shards), an_introduction("n2"), draining=("n1",))

    made = simulated.plan(a_catalog(a_model(replicas=3)))

    assert [s.spec.ordinal for s in starts(made)] == [3, 4, 5]
    assert stops(made) == []


def test_what_is_not_ready_on_a_drained_node_is_stopped_at_once_and_starts_elsewhere() -> None:
    for phase in (Phase.PENDING, Phase.STARTING, Phase.FAILED):
        simulated = _simulated(
            an_introduction("n1", shards=(a_shard(phase=phase),)), an_introduction("n2"), draining=("n1",)
        )
        simulated.now = 1e6

        made = simulated.plan(ONE)

        assert [(s.node, s.serves) for s in stops(made)] == [("n1", False)]
        assert [s.node for s in starts(made)] == ["n2"]


def test_what_fits_on_no_other_node_goes_without_a_replacement() -> None:
    simulated = _simulated(an_introduction("n1", shards=(a_shard(),)), draining=("n1",))

    made = simulated.plan(ONE)

    (stop,) = made.actions
    assert stop.because == "node n1 is drained, and it fits on no other node"
    assert stop.serves
    assert made.refused["gemma"].verdicts[0].rule == "state"


def test_of_two_replicas_of_which_one_fits_elsewhere_the_other_goes_at_once_and_the_first_later() -> None:
    model = a_model(replicas=2, profiles=(a_profile(min_memory_gb=10),))
    shards = tuple(a_shard(ordinal=i, min_memory_gb=10) for i in range(2))
    simulated = _simulated(
        an_introduction("n1", shards=shards), an_introduction("n2", free_gb=15), draining=("n1",)
    )

    first = simulated.plan(a_catalog(model))
    simulated.settle(a_catalog(model))

    assert [s.node for s in starts(first)] == ["n2"]
    assert len(stops(first)) == 1
    assert [node for node, _ in _running(simulated).values()] == ["n2"]


def test_a_drain_waits_for_a_node_that_may_come_back_before_it_leaves_nothing() -> None:
    simulated = _simulated(
        an_introduction("n1", shards=(a_shard(),)), an_introduction("n2"), draining=("n1",)
    )
    simulated.fleet = disconnected(simulated.fleet, "n2", connection=2, now=0.0, at=AT)

    unreachable = simulated.plan(ONE)
    simulated.fleet = aged(simulated.fleet, now=60.0, at=AT, unreachable_after_s=1e9, lost_after_s=60)
    lost = simulated.plan(ONE)

    assert unreachable.actions == ()
    assert [s.node for s in stops(lost)] == ["n1"]


def test_a_drain_waits_for_what_is_just_ending_elsewhere_before_it_leaves_nothing() -> None:
    model = a_model(profiles=(a_profile(min_memory_gb=10),))
    ending = a_shard("other", phase=Phase.DRAINING, min_memory_gb=10)
    simulated = _simulated(
        an_introduction("n1", shards=(a_shard(min_memory_gb=10),)),
        an_introduction("n2", free_gb=15, shards=(ending,)),
        draining=("n1",),
    )

    first = simulated.plan(a_catalog(model))
    simulated.settle(a_catalog(model))

    assert first.actions == ()
    assert _running(simulated) == {"gemma.1": ("n2", Phase.READY)}


def test_a_replacement_that_fails_leaves_the_drained_replica_serving_and_is_tried_again() -> None:
    simulated = _simulated(
        an_introduction("n1", shards=(a_shard(),)), an_introduction("n2"), draining=("n1",)
    )

    _fails(simulated, ONE)
    waiting = simulated.plans[-1]
    simulated.now = waiting.next_now or 0.0
    again = simulated.plan(ONE)

    assert waiting.actions == ()
    assert [s.node for s in starts(again)] == ["n2"]
    assert simulated.ready("gemma") == 1


def test_a_drained_node_that_is_unreachable_is_replaced_and_told_when_it_is_back() -> None:
    simulated = _simulated(
        an_introduction("n1", shards=(a_shard(),)), an_introduction("n2"), draining=("n1",)
    )
    simulated.fleet = disconnected(simulated.fleet, "n1", connection=1, now=0.0, at=AT)
    simulated.settle(ONE)
    meanwhile = list(_running(simulated))

    simulated.fleet = heard(simulated.fleet, "n1", connection=1, now=1.0, at=AT)
    simulated.settle(ONE)

    assert meanwhile == ["gemma.0", "gemma.1"]
    assert _running(simulated) == {"gemma.1": ("n2", Phase.READY)}


def test_a_node_that_is_drained_no_more_keeps_what_it_has() -> None:
    simulated = _simulated(
        an_introduction("n1", shards=(a_shard(),)), an_introduction("n2"), draining=("n1",)
    )
    simulated.plan(ONE)
    simulated.fleet = intended(simulated.fleet, "n1", State.READY, at=AT)

    simulated.settle(ONE)

    assert _running(simulated) == {"gemma.0": ("n1", Phase.READY)}


def test_what_runs_on_a_cordoned_node_stays() -> None:
    simulated = _simulated(an_introduction("n1", shards=(a_shard(),)), an_introduction("n2"))
    simulated.fleet = intended(simulated.fleet, "n1", State.CORDONED, at=AT)

    assert simulated.plan(ONE).actions == ()


def test_more_ready_replicas_than_wanted_leave_a_drained_node_at_once() -> None:
    simulated = _simulated(
        an_introduction("n1", shards=(a_shard(),)),
        an_introduction("n2", shards=(a_shard(ordinal=1),)),
        draining=("n1",),
    )

    made = simulated.plan(ONE)

    assert [s.node for s in stops(made)] == ["n1"]
    assert starts(made) == []


# rolling a model


def test_a_roll_aims_at_what_is_stale_and_at_everything_when_told_to() -> None:
    current = a_shard(ordinal=1, fingerprint=MODEL.profiles[0].fingerprint())
    unknown, other = a_shard(ordinal=2, fingerprint=None), a_shard("other", fingerprint=STALE)
    failed = a_shard(ordinal=3, fingerprint=STALE, phase=Phase.FAILED, generation=(1, 7))
    fleet = a_fleet(an_introduction(shards=(a_shard(fingerprint=STALE), current, unknown, failed, other)))

    stale, every = (begin_roll(MODEL, fleet, every=every) for every in (False, True))

    assert set(stale.targets) == {"gemma.0"}
    assert set(every.targets) == {"gemma.0", "gemma.1", "gemma.2"}
    assert (stale.left, every.left, stale.began) == (1, 3, Generation(1, 7))


def test_a_roll_of_nothing_stale_is_done() -> None:
    assert (
        begin_roll(MODEL, a_fleet(an_introduction(shards=(a_shard(),))), every=False).state == RollState.DONE
    )


def test_a_roll_replaces_one_after_the_other_the_new_one_ready_before_the_old_one_goes() -> None:
    model = a_model(replicas=2)
    shards = tuple(a_shard(ordinal=i, fingerprint=STALE) for i in range(2))
    simulated = _rolling(_simulated(an_introduction(shards=shards)), model)
    catalog = a_catalog(model)

    told = []
    for _ in range(12):
        made = simulated.plan(catalog)
        told += [f"start {s.spec.replica}" for s in starts(made)] + [f"stop {s.replica}" for s in stops(made)]
        assert simulated.ready("gemma") == 2
        simulated.obey()

    assert told == ["start gemma.2", "stop gemma.0", "start gemma.0", "stop gemma.1"]
    assert _roll(simulated).state == RollState.DONE
    assert _roll(simulated).left == 0
    prints = [s.fingerprint for s in simulated.fleet.nodes["n1"].shards.values()]
    assert prints == [model.profiles[0].fingerprint()] * 2


def test_a_roll_stops_when_the_new_one_fails_and_the_old_ones_go_on() -> None:
    model = a_model(replicas=2)
    shards = tuple(a_shard(ordinal=i, fingerprint=STALE) for i in range(2))
    simulated = _rolling(_simulated(an_introduction(shards=shards)), model)

    _fails(simulated, a_catalog(model))
    simulated.settle(a_catalog(model))

    assert _roll(simulated).state == RollState.STOPPED
    assert _roll(simulated).why == "the new gemma.2 (5.1) failed on n1: no reason given"
    assert _roll(simulated).left == 2
    assert _running(simulated) == {"gemma.0": ("n1", Phase.READY), "gemma.1": ("n1", Phase.READY)}


def test_a_roll_without_room_waits_a_minute_and_then_stops_and_says_what_to_do() -> None:
    model = a_model(profiles=(a_profile(min_memory_gb=10),))
    shard = a_shard(fingerprint=STALE, min_memory_gb=10)
    simulated = _rolling(_simulated(an_introduction(free_gb=15, shards=(shard,))), model)

    assert simulated.plan(a_catalog(model)).actions == ()
    waiting = _roll(simulated)
    simulated.now = 60.0
    assert simulated.plan(a_catalog(model)).actions == ()
    ended = _roll(simulated)

    assert waiting.state == RollState.ROLLING
    assert (waiting.why or "").startswith(
        "waits: there is no room beside what runs: model 'gemma' fits on none"
    )
    assert ended.state == RollState.STOPPED
    assert "'llmgw ctl replicas restart ID' ends one first" in (ended.why or "")


def test_a_stale_copy_that_is_still_starting_is_replaced_at_once() -> None:
    starting = a_shard(fingerprint=STALE, phase=Phase.STARTING)
    simulated = _rolling(_simulated(an_introduction(shards=(starting,))))

    made = simulated.plan(ONE)

    assert [(s.replica, s.because) for s in stops(made)] == [("gemma.0", "model 'gemma' is rolled")]
    assert len(starts(made)) == 1


def test_a_roll_whose_model_leaves_is_forgotten() -> None:
    simulated = _rolling(_simulated(an_introduction(shards=(a_shard(fingerprint=STALE),))))

    simulated.plan(a_catalog())

    assert simulated.orders == Orders()


def test_a_stale_replica_goes_before_a_current_one_when_there_are_too_many() -> None:
    current = a_shard(ordinal=1, fingerprint=MODEL.profiles[0].fingerprint())
    simulated = _simulated(an_introduction(shards=(a_shard(fingerprint=STALE), current)))

    assert [s.replica for s in stops(simulated.plan(ONE))] == ["gemma.0"]


# restarting a replica


def test_a_restarted_replica_ends_first_and_starts_again_under_its_name() -> None:
    simulated = _simulated(an_introduction(shards=(a_shard(),)), an_introduction("n2"))
    simulated.orders = Orders(restarts={"gemma.0": Generation(1, 1)})

    first = simulated.plan(ONE)
    draining = simulated.plan(ONE)
    simulated.obey()
    still = simulated.plan(ONE)
    simulated.obey()
    after = simulated.plan(ONE)

    assert [(s.because, s.serves) for s in stops(first)] == [("an operator asked to restart it", True)]
    assert first.actions[1:] == draining.actions == still.actions == ()
    assert [s.spec.shard for s in starts(after)] == ["gemma.0.0"]
    assert simulated.orders == Orders()


def test_a_restarted_replica_comes_back_under_its_own_name_though_lower_ones_are_free() -> None:
    shard = a_shard(ordinal=1, fingerprint=a_profile().fingerprint())
    sim = SimulatedFleet(a_fleet(an_introduction(shards=(shard,)), an_introduction("n2")))
    sim.orders = Orders(restarts={"gemma.1": Generation(1, 1)})

    sim.settle(a_catalog(a_model(replicas=1)))

    assert [s.replica for n in sim.fleet.nodes.values() for s in n.shards.values()] == ["gemma.1"]
    assert sim.orders == Orders()


def test_a_restart_of_what_is_no_longer_wanted_is_forgotten() -> None:
    shard = a_shard(ordinal=1, fingerprint=a_profile().fingerprint())
    sim = SimulatedFleet(a_fleet(an_introduction(shards=(shard,))))
    sim.orders = Orders(restarts={"gemma.1": Generation(1, 1)})

    sim.settle(a_catalog(a_model(replicas=0)))

    assert [s.replica for n in sim.fleet.nodes.values() for s in n.shards.values()] == []
    assert sim.orders == Orders()


def test_a_restart_of_a_replica_that_is_starting_starts_it_again_at_once() -> None:
    simulated = _simulated(an_introduction(shards=(a_shard(phase=Phase.STARTING),)))
    simulated.orders = Orders(restarts={"gemma.0": Generation(1, 1)})

    made = simulated.plan(ONE)

    assert [s.serves for s in stops(made)] == [False]
    assert [s.spec.generation for s in starts(made)] == [Generation(5, 1)]


def test_a_restart_leaves_alone_what_is_ending_for_another_reason() -> None:
    simulated = _simulated(
        an_introduction(shards=(a_shard(phase=Phase.DRAINING), a_shard(ordinal=1))), an_introduction("n2")
    )
    simulated.orders = Orders(restarts={"gemma.1": Generation(1, 1)})

    simulated.plan(a_catalog(a_model(replicas=2)))
    simulated.settle(a_catalog(a_model(replicas=2)))

    assert [phase for _, phase in _running(simulated).values()] == [Phase.READY] * 2
    assert sum(len(starts(made)) for made in simulated.plans) == 2


def test_a_restart_does_not_touch_a_later_generation() -> None:
    simulated = _simulated(an_introduction(shards=(a_shard(generation=(2, 1)),)))
    simulated.orders = Orders(restarts={"gemma.0": Generation(1, 1)})

    assert simulated.plan(ONE).actions == ()
    assert simulated.orders == Orders()


def test_a_restart_on_a_node_that_falls_silent_waits_for_it() -> None:
    simulated = _simulated(an_introduction("n1", shards=(a_shard(),)), an_introduction("n2"))
    simulated.orders = Orders(restarts={"gemma.0": Generation(1, 1)})
    simulated.fleet = disconnected(simulated.fleet, "n1", connection=1, now=0.0, at=AT)

    silent = simulated.plan(ONE)
    simulated.fleet = heard(simulated.fleet, "n1", connection=1, now=1.0, at=AT)
    back = simulated.plan(ONE)

    assert silent.actions == ()
    assert [s.replica for s in stops(back)] == ["gemma.0"]


# properties


@st.composite
def serving_fleets(draw: st.DrawFn) -> tuple[Fleet, tuple[Model, ...]]:
    """Up to four nodes on which two models run as wanted, some copies stale, some nodes drained."""
    models = tuple(
        a_model(
            name,
            replicas=draw(st.integers(0, 3)),
            profiles=(a_profile(min_memory_gb=draw(st.sampled_from([None, 2.0, 5.0]))),),
        )
        for name in "ab"
    )
    count = draw(st.integers(1, 4))
    shards: list[list[ShardState]] = [[] for _ in range(count)]
    for model in models:
        for ordinal in range(model.replicas):
            stale = draw(st.booleans())
            shard = a_shard(
                model.name,
                ordinal,
                generation=(1, 10 * ordinal + 1),
                fingerprint=STALE if stale else model.profiles[0].fingerprint(),
                min_memory_gb=model.profiles[0].min_memory_gb,
            )
            shards[draw(st.integers(0, count - 1))].append(shard)
    free = draw(st.sampled_from([8, 16, 64]))
    fleet = a_fleet(
        *(an_introduction(f"n{i}", free_gb=free, shards=tuple(own)) for i, own in enumerate(shards))
    )
    for i in range(count):
        if draw(st.sampled_from([False, False, True])):
            fleet = intended(fleet, f"n{i}", State.DRAINING, at=AT)
    return fleet, models


OUTCOMES = st.lists(st.sampled_from([Phase.READY, Phase.READY, Phase.STARTING]), min_size=1, max_size=6)


@settings(max_examples=150, deadline=None)
@given(serving_fleets(), st.booleans(), OUTCOMES)
def test_no_order_takes_a_ready_replica_before_another_is_ready_where_there_is_room(
    given_fleet: tuple[Fleet, tuple[Model, ...]], every: bool, outcomes: list[Phase]
) -> None:
    fleet, models = given_fleet
    simulated = SimulatedFleet(fleet)
    simulated.orders = Orders(rolls={m.name: begin_roll(m, fleet, every=every) for m in models})
    catalog, ends = a_catalog(*models), cycle(outcomes)

    for _ in range(30):
        before = {model.name: simulated.ready(model.name) for model in models}
        made = simulated.plan(catalog)
        for model in models:
            homeless = sum(
                "fits on no other node" in s.because for s in stops(made) if s.shard[0] == model.name
            )
            least = min(model.replicas, before[model.name]) - homeless
            assert simulated.ready(model.name) >= least
            assert homeless == 0 or model.name in made.refused
        simulated.obey(lambda shard: next(ends))


@settings(max_examples=150, deadline=None)
@given(serving_fleets(), st.booleans())
def test_orders_come_to_an_end_with_drained_nodes_empty_and_rolled_models_current(
    given_fleet: tuple[Fleet, tuple[Model, ...]], every: bool
) -> None:
    fleet, models = given_fleet
    simulated = SimulatedFleet(fleet)
    simulated.orders = Orders(rolls={m.name: begin_roll(m, fleet, every=every) for m in models})
    catalog = a_catalog(*models)

    for _ in range(3):
        simulated.settle(catalog, rounds=60)
        simulated.now += 60.0
    last = simulated.plan(catalog)

    assert last.actions == ()
    for node in simulated.fleet.nodes.values():
        assert node.intent != State.DRAINING or node.shards == {}
        total = node.machine.memory.total_bytes or 0
        assert sum((s.min_memory_gb or 0) * GIB for s in node.shards.values()) <= max(
            total, sum((s.min_memory_gb or 0) * GIB for s in fleet.nodes[node.id].shards.values())
        )
    for model in models:
        running = [
            s for n in simulated.fleet.nodes.values() for s in n.shards.values() if s.model == model.name
        ]
        assert len(running) == model.replicas or model.name in last.refused
        roll = simulated.orders.rolls[model.name]
        assert roll.state != RollState.ROLLING
        if roll.state == RollState.DONE:
            assert not any(roll.is_target(s) for s in running)


def test_rolling_a_model_while_its_node_is_drained_replaces_everything_once() -> None:
    model = a_model(replicas=2)
    shards = tuple(a_shard(ordinal=i, fingerprint=STALE) for i in range(2))
    simulated = _simulated(
        an_introduction("n1", shards=shards[:1]),
        an_introduction("n2", shards=shards[1:]),
        an_introduction("n3"),
        draining=("n1",),
    )
    _rolling(simulated, model)

    simulated.settle(a_catalog(model))

    assert sum(len(starts(made)) for made in simulated.plans) == 2
    assert _roll(simulated).state == RollState.DONE
    assert {node for node, _ in _running(simulated).values()} <= {"n2", "n3"}


def test_an_older_copy_of_what_was_rolled_comes_back_and_goes() -> None:
    simulated = _simulated(an_introduction("n1", shards=(a_shard(fingerprint=STALE),)), an_introduction("n2"))
    simulated.fleet = disconnected(simulated.fleet, "n1", connection=1, now=0.0, at=AT)
    simulated.fleet = aged(simulated.fleet, now=60.0, at=AT, unreachable_after_s=1e9, lost_after_s=60)
    simulated.settle(ONE)

    simulated.fleet = heard(simulated.fleet, "n1", connection=1, now=99.0, at=AT)
    made = simulated.plan(ONE)

    assert [(s.node, s.because) for s in stops(made)] == [
        ("n1", "older generation 1.1 of gemma.0 stopped here, 5.1 runs on n2")
    ]
    assert simulated.ready("gemma") == 1
    assert replace(made, actions=()).refused == {}
