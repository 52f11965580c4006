"""Reconcile rule by rule, and over random fleets: it converges, starts nothing twice and promises no memory twice."""

import pytest
from fakes.catalogs import a_catalog, a_model, a_profile
from fakes.fleets import AT, a_fleet
from fakes.nodes import a_shard, an_introduction
from fakes.simulated_fleet import SimulatedFleet, starts, stops
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from llmgw.core.fleet.catalog import Catalog, Model
from llmgw.core.fleet.shards import LIVE, Phase, ShardState
from llmgw.core.fleet.snapshot import Fleet, aged, disconnected, heard, intended, register, shard_reported
from llmgw.core.fleet.snapshot import NodeState as State
from llmgw.core.ids import Generation
from llmgw.core.reconcile import Plan, plan
from llmgw.core.units import GIB


def _plan(catalog: Catalog, fleet: Fleet, now: float = 0.0) -> Plan:
    return plan(catalog, fleet, epoch=5, counter=0, now=now)


def _without(fleet: Fleet, node: str, *, lost: bool) -> Fleet:
    """The fleet after `node` fell silent, for long enough to be lost or just unreachable."""
    fleet = disconnected(fleet, node, connection=fleet.nodes[node].connection, now=0.0, at=AT)
    if lost:
        fleet = aged(fleet, now=60.0, at=AT, unreachable_after_s=1e9, lost_after_s=60.0)
    return fleet


def test_a_wanted_replica_is_started_with_all_that_the_agent_needs() -> None:
    model = a_model()

    made = _plan(a_catalog(model), a_fleet(an_introduction()))

    (start,) = starts(made)
    assert start.node == "n1"
    assert start.spec.shard == "gemma.0.0"
    assert start.spec.generation == Generation(5, 1)
    assert start.spec.profile == model.profiles[0]
    assert start.spec.fingerprint == model.profiles[0].fingerprint()
    assert start.because == "one more replica is wanted; the only node"
    assert (made.epoch, made.counter) == (5, 1)


def test_nothing_is_done_while_what_is_wanted_runs() -> None:
    made = _plan(a_catalog(a_model()), a_fleet(an_introduction(shards=(a_shard(),))))

    assert made == Plan(epoch=5, counter=0)


def test_replicas_of_one_model_spread_over_nodes() -> None:
    made = _plan(a_catalog(a_model(replicas=2)), a_fleet(an_introduction("n1"), an_introduction("n2")))

    assert {s.node for s in starts(made)} == {"n1", "n2"}
    assert [s.spec.ordinal for s in starts(made)] == [0, 1]


def test_each_placement_sees_the_room_that_the_earlier_ones_left() -> None:
    model = a_model(replicas=3, profiles=(a_profile(min_memory_gb=10),))

    made = _plan(a_catalog(model), a_fleet(an_introduction(free_gb=25)))

    assert len(starts(made)) == 2
    assert made.refused["gemma"].verdicts[0].rule == "memory"


def test_a_replica_that_fits_nowhere_is_refused_with_every_verdict() -> None:
    model = a_model(profiles=(a_profile(min_memory_gb=100),))

    made = _plan(a_catalog(model), a_fleet(an_introduction("n1"), an_introduction("n2")))

    assert made.actions == ()
    assert [v.node for v in made.refused["gemma"].verdicts] == ["n1", "n2"]


def test_of_two_ready_copies_of_one_replica_the_older_is_stopped() -> None:
    fleet = a_fleet(
        an_introduction("n1", shards=(a_shard(generation=(4, 1)),)),
        an_introduction("n2", shards=(a_shard(generation=(4, 2)),)),
    )

    (stop,) = _plan(a_catalog(a_model()), fleet).actions

    assert (stop.node, stop.generation) == ("n1", Generation(4, 1))
    assert stop.because == "older generation 4.1 of gemma.0 stopped here, 4.2 runs on n2"


def test_a_ready_older_copy_is_kept_until_the_later_one_answers() -> None:
    returned = an_introduction("n1", shards=(a_shard(generation=(4, 1)),))
    loading = a_shard(generation=(4, 2), phase=Phase.STARTING)
    fleet = a_fleet(returned, an_introduction("n2", shards=(loading,)))

    meanwhile = _plan(a_catalog(a_model()), fleet)
    fleet = shard_reported(fleet, "n2", replace(loading, phase=Phase.READY), connection=2, now=1.0)
    afterwards = _plan(a_catalog(a_model()), fleet)

    assert meanwhile.actions == ()
    assert [s.node for s in stops(afterwards)] == ["n1"]


def test_a_ready_older_copy_is_kept_while_the_node_of_the_later_one_is_out_of_reach() -> None:
    fleet = a_fleet(
        an_introduction("n1", shards=(a_shard(generation=(4, 1)),)),
        an_introduction("n2", shards=(a_shard(generation=(4, 2)),)),
    )

    made = _plan(a_catalog(a_model()), _without(fleet, "n2", lost=False))

    assert made.actions == ()


def test_a_ready_older_copy_that_came_back_is_kept_until_the_node_of_the_later_one_has_spoken_again() -> None:
    later = an_introduction("n2", shards=(a_shard(generation=(4, 2)),))
    returned = an_introduction("n1", shards=(a_shard(generation=(4, 1)),))
    fleet = register(a_fleet(later), returned, connection=2, now=10.0, at=AT)

    meanwhile = _plan(a_catalog(a_model()), fleet)
    fleet = heard(fleet, "n2", connection=1, now=11.0, at=AT)
    afterwards = _plan(a_catalog(a_model()), fleet)

    assert meanwhile.actions == ()
    assert [s.node for s in stops(afterwards)] == ["n1"]


def test_a_ready_older_copy_does_not_outlive_its_model_when_the_later_one_cannot_be_told() -> None:
    loading = a_shard(generation=(4, 2), phase=Phase.STARTING)
    fleet = a_fleet(
        an_introduction("n1", shards=(a_shard(generation=(4, 1)),)), an_introduction("n2", shards=(loading,))
    )

    made = _plan(a_catalog(), _without(fleet, "n2", lost=False))

    assert [s.node for s in stops(made)] == ["n1"]


def test_a_ready_older_copy_outlives_a_later_one_that_failed() -> None:
    fleet = a_fleet(
        an_introduction("n1", shards=(a_shard(generation=(4, 1)),)),
        an_introduction("n2", shards=(a_shard(generation=(4, 2), phase=Phase.FAILED),)),
    )

    (stop,) = _plan(a_catalog(a_model()), fleet, now=1e6).actions

    assert (stop.node, stop.generation) == ("n2", Generation(4, 2))


def test_an_older_copy_that_is_not_ready_itself_is_stopped_at_once() -> None:
    fleet = a_fleet(
        an_introduction("n1", shards=(a_shard(generation=(4, 1), phase=Phase.STARTING),)),
        an_introduction("n2", shards=(a_shard(generation=(4, 2), phase=Phase.STARTING),)),
    )

    assert [s.node for s in stops(_plan(a_catalog(a_model()), fleet))] == ["n1"]


def test_shards_of_a_model_that_left_the_catalog_are_stopped() -> None:
    fleet = a_fleet(an_introduction(shards=(a_shard("b"), a_shard("a"))))

    made = _plan(a_catalog(), fleet)

    assert [(s.shard, s.because) for s in stops(made)] == [
        ("a.0.0", "model 'a' left the catalog"),
        ("b.0.0", "model 'b' left the catalog"),
    ]


def test_a_shard_whose_profile_left_is_replaced_by_one_of_a_profile_that_is_there() -> None:
    fleet = a_fleet(an_introduction(shards=(a_shard(profile="gpu"),)))

    made = _plan(a_catalog(a_model()), fleet)

    assert [s.because for s in stops(made)] == ["profile 'gpu' left model 'gemma'"]
    assert [s.spec.shard for s in starts(made)] == ["gemma.1.0"]


def test_a_shard_whose_profile_was_edited_is_stale_and_stays() -> None:
    fleet = a_fleet(an_introduction(shards=(a_shard(fingerprint="0123456789abcdef"),)))

    assert _plan(a_catalog(a_model()), fleet).actions == ()


def test_a_shard_that_does_not_say_its_profile_stays() -> None:
    fleet = a_fleet(an_introduction(shards=(a_shard(profile=None, fingerprint=None),)))

    assert _plan(a_catalog(a_model()), fleet).actions == ()


def test_a_shard_that_ended_is_forgotten_and_replaced() -> None:
    fleet = a_fleet(an_introduction(shards=(a_shard(phase=Phase.STOPPED),)))

    made = _plan(a_catalog(a_model()), fleet)

    assert [s.because for s in stops(made)] == ["it has ended"]
    assert [s.spec.shard for s in starts(made)] == ["gemma.0.0"]


def test_of_too_many_replicas_failed_ones_go_first_then_those_not_ready_then_the_highest_ordinals() -> None:
    phases = [Phase.FAILED, Phase.READY, Phase.STARTING, Phase.READY]
    fleet = a_fleet(
        an_introduction(shards=tuple(a_shard(ordinal=i, phase=phase) for i, phase in enumerate(phases)))
    )

    gone = {
        wanted: {s.shard for s in stops(_plan(a_catalog(a_model(replicas=wanted)), fleet))}
        for wanted in (3, 2, 1, 0)
    }

    assert gone[3] == {"gemma.0.0"}
    assert gone[2] == {"gemma.0.0", "gemma.2.0"}
    assert gone[1] == {"gemma.0.0", "gemma.2.0", "gemma.3.0"}
    assert len(gone[0]) == 4


def test_of_too_many_ready_replicas_one_on_an_unreachable_node_goes_first_and_is_told_when_it_is_back() -> (
    None
):
    fleet = a_fleet(
        an_introduction("n1", shards=(a_shard(ordinal=0),)),
        an_introduction("n2", shards=(a_shard(ordinal=1),)),
    )
    away = _without(fleet, "n1", lost=False)
    back = register(away, an_introduction("n1", shards=(a_shard(ordinal=0),)), connection=3, now=1.0, at=AT)

    meanwhile, afterwards = (_plan(a_catalog(a_model(replicas=1)), fleet) for fleet in (away, back))

    assert meanwhile.actions == ()
    assert [s.shard for s in stops(afterwards)] == ["gemma.1.0"]


def test_what_runs_on_an_unreachable_node_counts_as_running() -> None:
    fleet = a_fleet(an_introduction("n1", shards=(a_shard(),)), an_introduction("n2"))

    assert _plan(a_catalog(a_model()), _without(fleet, "n1", lost=False)).actions == ()


def test_what_ran_on_a_lost_node_is_placed_elsewhere_with_a_later_generation() -> None:
    fleet = a_fleet(an_introduction("n1", shards=(a_shard(generation=(5, 9)),)), an_introduction("n2"))

    made = _plan(a_catalog(a_model()), _without(fleet, "n1", lost=True))

    (start,) = starts(made)
    assert stops(made) == []
    assert (start.node, start.spec.shard) == ("n2", "gemma.0.0")
    assert start.spec.generation > Generation(5, 9)
    assert start.because.startswith("the replica is gone")


def test_nodes_that_do_not_take_work_are_given_none() -> None:
    fleet = a_fleet(an_introduction())

    for intent in (State.CORDONED, State.DRAINING):
        made = _plan(a_catalog(a_model()), intended(fleet, "n1", intent, at=AT))
        assert made.actions == ()
        assert made.refused["gemma"].verdicts[0].rule == "state"


def test_a_failed_replica_waits_for_its_backoff_and_then_starts_again() -> None:
    fleet = a_fleet(an_introduction(shards=(a_shard(phase=Phase.FAILED, reason="out of memory"),)))

    early, due = (_plan(a_catalog(a_model()), fleet, now=now) for now in (0.5, 1.0))

    assert (early.actions, early.next_now) == ((), 1.0)
    (start,) = due.actions
    assert start.because.startswith("again, since it failed (out of memory)")
    assert start.spec.generation == Generation(5, 1)


def test_a_failed_replica_that_starts_again_elsewhere_is_stopped_where_it_failed() -> None:
    failed = a_shard(phase=Phase.FAILED)
    fleet = a_fleet(an_introduction("n1", shards=(failed,)), an_introduction("n2"))

    made = _plan(a_catalog(a_model()), fleet, now=2.0)

    assert [s.node for s in starts(made)] == ["n2"]
    assert [(s.node, s.because) for s in stops(made)] == [("n1", "gemma.0 starts again on n2")]


def test_a_failed_replica_starts_at_once_when_its_profile_was_edited_since() -> None:
    failed = a_shard(phase=Phase.FAILED, fingerprint="0123456789abcdef")

    made = _plan(a_catalog(a_model()), a_fleet(an_introduction(shards=(failed,))), now=0.0)

    assert starts(made)[0].because.startswith("again, since its profile was edited")


def test_a_failed_replica_that_fits_nowhere_stays_failed_and_says_why() -> None:
    model = a_model(profiles=(a_profile(min_memory_gb=1000),))

    made = _plan(a_catalog(model), a_fleet(an_introduction(shards=(a_shard(phase=Phase.FAILED),))), now=9.0)

    assert made.actions == ()
    assert "gemma" in made.refused


def test_a_replica_that_failed_and_is_nowhere_any_more_waits_for_its_backoff_all_the_same() -> None:
    fleet = a_fleet(an_introduction(shards=(a_shard(phase=Phase.FAILED),)))
    fleet = register(fleet, an_introduction(), connection=2, now=0.2, at=AT)

    early, due = (_plan(a_catalog(a_model()), fleet, now=now) for now in (0.5, 1.0))

    assert (early.actions, early.next_now) == ((), 1.0)
    assert len(starts(due)) == 1


def test_the_earliest_of_several_waits_is_when_to_plan_again() -> None:
    fleet = a_fleet(an_introduction(shards=(a_shard("a", phase=Phase.FAILED),)))
    fleet = shard_reported(fleet, "n1", a_shard("b", phase=Phase.FAILED), connection=1, now=0.4)

    made = _plan(a_catalog(a_model("a"), a_model("b")), fleet, now=0.5)

    assert made.next_now == 1.0


def test_a_shard_that_is_leaving_is_neither_told_again_nor_counted() -> None:
    simulated = SimulatedFleet(a_fleet(an_introduction(shards=(a_shard(), a_shard(ordinal=1)))))

    first = simulated.plan(a_catalog(a_model(replicas=1)))
    second = simulated.plan(a_catalog(a_model(replicas=1)))
    third = simulated.plan(a_catalog(a_model(replicas=2)))

    assert [s.shard for s in stops(first)] == ["gemma.1.0"]
    assert second.actions == ()
    assert [s.spec.shard for s in starts(third)] == ["gemma.2.0"]


def test_a_draining_shard_counts_for_nothing_and_is_not_replaced_under_its_own_name() -> None:
    fleet = a_fleet(an_introduction(shards=(a_shard(phase=Phase.DRAINING),)))

    made = _plan(a_catalog(a_model()), fleet)

    assert [s.spec.shard for s in starts(made)] == ["gemma.1.0"]
    assert stops(made) == []


def test_a_server_whose_database_was_restored_gives_out_generations_above_all_that_runs() -> None:
    fleet = a_fleet(an_introduction(shards=(a_shard(phase=Phase.FAILED, generation=(9, 4)),)))

    made = _plan(a_catalog(a_model()), fleet, now=5.0)

    assert starts(made)[0].spec.generation == Generation(9, 5)
    assert (made.epoch, made.counter) == (9, 5)


def test_a_model_at_zero_replicas_runs_nowhere() -> None:
    fleet = a_fleet(an_introduction(shards=(a_shard(),)))

    made = _plan(a_catalog(a_model(replicas=0)), fleet)

    assert [s.because for s in stops(made)] == ["1 replicas of 'gemma' run, 0 are wanted"]
    assert starts(made) == []


def test_a_crash_loop_backs_off_from_one_second_to_five_minutes() -> None:
    simulated = SimulatedFleet(a_fleet(an_introduction()))
    catalog = a_catalog(a_model())
    waits = []

    for _ in range(12):
        assert len(starts(simulated.plan(catalog))) == 1
        simulated.obey(lambda shard: Phase.FAILED)
        due = simulated.plan(catalog).next_now
        assert due is not None
        waits.append(due - simulated.now)
        simulated.now = due

    assert waits == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]


MODELS = st.lists(
    st.builds(
        a_model,
        name=st.sampled_from("abcd"),
        replicas=st.integers(0, 4),
        profiles=st.lists(
            st.builds(a_profile, min_memory_gb=st.sampled_from([None, 1.0, 3.5, 8.0])),
            min_size=1,
            max_size=2,
        ).map(lambda profiles: tuple(replace(p, name=f"p{i}") for i, p in enumerate(profiles))),
    ),
    max_size=4,
    unique_by=lambda model: model.name,
)
SHARDS = st.lists(
    st.builds(
        a_shard,
        model=st.sampled_from("abcde"),
        ordinal=st.integers(0, 3),
        generation=st.tuples(st.integers(1, 6), st.integers(1, 9)),
        phase=st.sampled_from(Phase),
        profile=st.sampled_from(["p0", "p1", "gone", None]),
        min_memory_gb=st.sampled_from([None, 0.5, 2.0]),
    ),
    max_size=5,
    unique_by=lambda shard: shard.shard,
).map(tuple)
FREE_GB = st.sampled_from([None, 4, 16, 64])
SILENCE = st.sampled_from(["connected", "connected", "unreachable", "lost"])


@st.composite
def fleets(draw: st.DrawFn) -> Fleet:
    """Up to five nodes with whatever on them, some silent; those that are not have all been heard of late."""
    said = [
        an_introduction(f"n{i}", free_gb=draw(FREE_GB), shards=draw(SHARDS))
        for i in range(draw(st.integers(0, 5)))
    ]
    fleet = a_fleet(*said)
    for one in said:
        silence = draw(SILENCE)
        if silence != "connected":
            fleet = _without(fleet, one.node, lost=silence == "lost")
        else:
            connection = fleet.nodes[one.node].connection
            fleet = heard(fleet, one.node, connection=connection, now=2.0, at=AT)
    return fleet


def _claims(fleet: Fleet, node: str) -> int:
    shards = fleet.nodes[node].shards.values()
    return sum(int((s.min_memory_gb or 0) * GIB) for s in shards if s.phase in LIVE)


def _live_copies(fleet: Fleet, model: Model) -> list[ShardState]:
    nodes = [node for node in fleet.nodes.values() if node.state != State.LOST]
    return [s for n in nodes for s in n.shards.values() if s.model == model.name and s.phase in LIVE]


@settings(max_examples=100, deadline=None)
@given(MODELS, fleets(), st.sampled_from([0.0, 1e6]))
def test_a_plan_starts_no_replica_twice_and_never_more_than_wanted(
    models: list[Model], fleet: Fleet, now: float
) -> None:
    made = _plan(a_catalog(*models), fleet, now)

    started = [start.spec for start in starts(made)]
    assert len({spec.shard for spec in started}) == len(started)
    assert len({spec.generation for spec in started}) == len(started)
    for model in models:
        assert sum(spec.model == model.name for spec in started) <= model.replicas
    for start in starts(made):
        assert fleet.nodes[start.node].state == State.READY
        for node in fleet.nodes.values():
            before = node.shards.get(start.spec.shard)
            assert before is None or before.generation < start.spec.generation


@settings(max_examples=100, deadline=None)
@given(MODELS, fleets(), st.sampled_from([0.0, 1e6]))
def test_a_plan_never_promises_memory_that_a_node_does_not_have(
    models: list[Model], fleet: Fleet, now: float
) -> None:
    simulated = SimulatedFleet(fleet)
    simulated.now = now

    made = simulated.plan(a_catalog(*models))

    for start in starts(made):
        total = fleet.nodes[start.node].machine.memory.total_bytes
        if start.spec.profile.min_memory_gb and total is not None:
            assert _claims(simulated.fleet, start.node) <= total


@settings(max_examples=100, deadline=None)
@given(MODELS, fleets())
def test_doing_what_plans_say_ends_where_the_catalog_wants_and_then_nothing_is_left_to_do(
    models: list[Model], fleet: Fleet
) -> None:
    simulated = SimulatedFleet(fleet)
    simulated.now = 1e6
    catalog = a_catalog(*models)

    simulated.settle(catalog)

    last = simulated.plan(catalog)
    assert last.actions == ()
    away = any(node.state == State.UNREACHABLE for node in simulated.fleet.nodes.values())
    for model in models:
        running = len(_live_copies(simulated.fleet, model))
        if model.name not in last.refused and not away:
            assert running == model.replicas
    wanted = {model.name for model in models}
    reachable = [node for node in simulated.fleet.nodes.values() if node.state == State.READY]
    assert {s.model for node in reachable for s in node.shards.values()} <= wanted


@pytest.mark.parametrize("ends", [Phase.READY, Phase.FAILED])
def test_two_servers_that_see_the_same_plan_the_same(ends: Phase) -> None:
    fleet = a_fleet(*(an_introduction(f"n{i}", shards=(a_shard(ordinal=i, phase=ends),)) for i in range(4)))
    catalog = a_catalog(a_model(replicas=6), a_model("other", replicas=2))

    assert _plan(catalog, fleet, now=9.0) == _plan(catalog, fleet, now=9.0)
