from datetime import timedelta

import pytest
from fakes.catalogs import a_model, a_profile
from fakes.fleets import AT, a_fleet
from fakes.nodes import LLAMA, a_shard, an_introduction
from msgspec.structs import replace

from llmgw.core.fleet.beat import Beat, ShardUse
from llmgw.core.fleet.catalog import Model
from llmgw.core.fleet.hardware import Filesystem, Memory
from llmgw.core.fleet.restarts import Attempts
from llmgw.core.fleet.shards import Phase, ShardSpec
from llmgw.core.fleet.snapshot import (
    Fleet,
    Node,
    NodeState,
    aged,
    assigned,
    disconnected,
    forgetting,
    forgiven,
    heard,
    intended,
    is_leaving,
    register,
    shard_reported,
    start_refused,
    stop_taken,
    told_to_stop,
)
from llmgw.core.ids import Generation

LATER = AT + timedelta(seconds=30)
MODEL = a_model(profiles=(a_profile(min_memory_gb=2),))


def _spec(generation: tuple[int, int] = (1, 1), model: Model = MODEL) -> ShardSpec:
    profile = model.profiles[0]
    return ShardSpec(
        shard="gemma.0.0",
        replica="gemma.0",
        model="gemma",
        ordinal=0,
        generation=Generation(*generation),
        fingerprint=profile.fingerprint(),
        profile=profile,
    )


def _age(fleet: Fleet, now: float) -> Fleet:
    at = AT + timedelta(seconds=now)
    return aged(fleet, now=now, at=at, unreachable_after_s=15.0, lost_after_s=60.0)


def _node(fleet: Fleet) -> Node:
    return fleet.nodes["n1"]


def test_a_node_that_registers_is_ready_and_runs_what_it_says() -> None:
    fleet = a_fleet(an_introduction(shards=(a_shard(),), labels={"rack": "b2"}, version="1.2"), now=7.0)

    node = _node(fleet)
    assert (node.state, node.since, node.seen_at, node.heard_now) == (NodeState.READY, AT, AT, 7.0)
    assert (node.labels, node.version, node.connection) == ({"rack": "b2"}, "1.2", 1)
    assert node.shards == {"gemma.0.0": a_shard()}


def test_a_register_replaces_all_that_was_known_of_shards() -> None:
    fleet = a_fleet(an_introduction(shards=(a_shard(), a_shard(ordinal=1))))

    fleet = register(fleet, an_introduction(shards=(a_shard("other"),)), connection=2, now=1.0, at=LATER)

    assert set(_node(fleet).shards) == {"other.0.0"}


def test_a_register_of_an_older_connection_changes_nothing() -> None:
    fleet = register(Fleet(), an_introduction(), connection=5, now=0.0, at=AT)

    assert register(fleet, an_introduction(address="10.9.9.9"), connection=4, now=1.0, at=LATER) is fleet


def test_a_node_that_was_ready_and_registers_again_has_been_ready_all_along() -> None:
    fleet = register(a_fleet(an_introduction()), an_introduction(), connection=2, now=30.0, at=LATER)

    assert (_node(fleet).since, _node(fleet).seen_at) == (AT, LATER)


def test_a_lost_node_that_registers_is_ready_since_then() -> None:
    fleet = _age(disconnected(a_fleet(an_introduction()), "n1", connection=1, now=0.0, at=AT), 60.0)

    fleet = register(fleet, an_introduction(), connection=2, now=90.0, at=LATER)

    assert (_node(fleet).state, _node(fleet).since, _node(fleet).gone_now) == (NodeState.READY, LATER, None)


def test_a_cordoned_node_stays_cordoned_over_reconnects() -> None:
    fleet = intended(a_fleet(an_introduction()), "n1", NodeState.CORDONED, at=AT)

    fleet = register(fleet, an_introduction(), connection=2, now=1.0, at=LATER)

    assert (_node(fleet).state, _node(fleet).since) == (NodeState.CORDONED, AT)


def test_a_start_that_is_on_its_way_survives_a_register_on_the_same_connection_only() -> None:
    fleet = assigned(a_fleet(an_introduction()), "n1", _spec())
    sent = {"gemma.0.0": Generation(1, 1)}

    same = register(fleet, an_introduction(), connection=1, now=1.0, at=LATER, on_the_way=sent)
    acknowledged = register(fleet, an_introduction(), connection=1, now=1.0, at=LATER)
    other = register(fleet, an_introduction(), connection=2, now=1.0, at=LATER, on_the_way=sent)

    assert _node(same).shards["gemma.0.0"].phase == Phase.PENDING
    assert _node(acknowledged).shards == {}
    assert _node(other).shards == {}


def test_a_start_that_is_on_its_way_wins_over_the_older_generation_that_a_register_names() -> None:
    fleet = assigned(a_fleet(an_introduction()), "n1", _spec((1, 2)))
    sent = {"gemma.0.0": Generation(1, 2)}

    for generation, wanted in (((1, 1), Phase.PENDING), ((1, 2), Phase.STARTING)):
        said = an_introduction(shards=(a_shard(generation=generation, phase=Phase.STARTING),))
        after = register(fleet, said, connection=1, now=1.0, at=LATER, on_the_way=sent)
        assert _node(after).shards["gemma.0.0"].phase == wanted


def test_what_a_node_was_told_to_stop_is_remembered_over_a_register_on_the_same_connection_only() -> None:
    fleet = told_to_stop(a_fleet(an_introduction(shards=(a_shard(),))), "n1", "gemma.0.0", Generation(1, 1))

    same = register(fleet, an_introduction(shards=(a_shard(),)), connection=1, now=1.0, at=LATER)
    other = register(fleet, an_introduction(shards=(a_shard(),)), connection=2, now=1.0, at=LATER)

    assert is_leaving(_node(same), a_shard())
    assert not is_leaving(_node(other), a_shard())


def test_a_failure_that_a_register_tells_counts_once() -> None:
    failed = an_introduction(shards=(a_shard(phase=Phase.FAILED),))

    fleet = register(a_fleet(failed, now=3.0), failed, connection=2, now=9.0, at=LATER)

    assert fleet.attempts == {"gemma.0": Attempts(count=1, failed_now=3.0, failed=Generation(1, 1))}


def test_a_heartbeat_changes_what_it_says_and_leaves_what_it_does_not_say() -> None:
    fleet = a_fleet(an_introduction())
    disks = (Filesystem(mount="/", free_bytes=5),)

    silent = heard(fleet, "n1", connection=1, now=5.0, at=LATER)
    saying = heard(
        fleet,
        "n1",
        connection=1,
        now=5.0,
        at=LATER,
        said=Beat(memory=Memory(), filesystems=disks, engines=()),
    )

    assert _node(silent).machine == _node(fleet).machine
    assert _node(silent).engines == (LLAMA,)
    assert (_node(silent).heard_now, _node(silent).seen_at) == (5.0, LATER)
    assert (_node(saying).machine.memory, _node(saying).machine.filesystems) == (Memory(), disks)
    assert _node(saying).engines == ()


@pytest.mark.parametrize(("node", "connection"), [("n1", 0), ("n1", 2), ("unknown", 1)])
def test_news_of_another_connection_or_an_unknown_node_changes_nothing(node: str, connection: int) -> None:
    fleet = a_fleet(an_introduction(shards=(a_shard(),)))
    failed = a_shard(phase=Phase.FAILED)

    assert heard(fleet, node, connection=connection, now=5.0, at=LATER) is fleet
    assert shard_reported(fleet, node, failed, connection=connection, now=5.0) is fleet
    assert disconnected(fleet, node, connection=connection, now=5.0, at=LATER) is fleet
    assert stop_taken(fleet, node, "gemma.0.0", Generation(1, 1), connection=connection) is fleet
    assert start_refused(fleet, node, _spec(), "no", connection=connection, now=5.0) is fleet


def test_a_silent_node_becomes_unreachable_then_lost_and_keeps_what_it_reported() -> None:
    fleet = a_fleet(an_introduction(shards=(a_shard(),)))

    states = [(_node(_age(fleet, now)).state, now) for now in (14.9, 15.0)]
    unreachable = _age(fleet, 15.0)
    later = _age(unreachable, 74.9)
    lost = _age(unreachable, 75.0)

    assert states == [(NodeState.READY, 14.9), (NodeState.UNREACHABLE, 15.0)]
    assert later is unreachable
    assert _node(lost).state == NodeState.LOST
    assert _node(lost).since == AT + timedelta(seconds=75)
    assert _node(lost).shards == {"gemma.0.0": a_shard()}
    assert _age(lost, 500.0) is lost


def test_a_closed_connection_makes_a_node_unreachable_at_once() -> None:
    fleet = disconnected(a_fleet(an_introduction()), "n1", connection=1, now=2.0, at=LATER)

    assert (_node(fleet).state, _node(fleet).since, _node(fleet).gone_now) == (
        NodeState.UNREACHABLE,
        LATER,
        2.0,
    )
    assert _node(_age(fleet, 61.9)).state == NodeState.UNREACHABLE
    assert _node(_age(fleet, 62.0)).state == NodeState.LOST


def test_a_node_that_is_gone_already_is_not_gone_anew_when_its_connection_closes() -> None:
    silent = _age(a_fleet(an_introduction()), 15.0)

    closed = disconnected(silent, "n1", connection=1, now=40.0, at=LATER)

    assert _node(closed).gone_now == 15.0


def test_a_sign_of_life_brings_a_silent_node_back_to_what_the_operator_wants_of_it() -> None:
    fleet = _age(intended(a_fleet(an_introduction()), "n1", NodeState.DRAINING, at=AT), 15.0)

    fleet = heard(fleet, "n1", connection=1, now=16.0, at=LATER)

    assert (_node(fleet).state, _node(fleet).since, _node(fleet).gone_now) == (
        NodeState.DRAINING,
        LATER,
        None,
    )


def test_a_sign_of_life_of_a_living_node_does_not_move_its_since() -> None:
    assert _node(heard(a_fleet(an_introduction()), "n1", connection=1, now=1.0, at=LATER)).since == AT


def test_a_server_that_stalled_starts_all_timers_again() -> None:
    fleet = a_fleet(an_introduction("n1"), an_introduction("n2"))
    fleet = disconnected(fleet, "n2", connection=2, now=0.0, at=AT)

    fleet = forgiven(fleet, now=100.0)

    assert _age(fleet, 114.0).nodes["n1"].state == NodeState.READY
    assert _age(fleet, 159.0).nodes["n2"].state == NodeState.UNREACHABLE
    assert _age(fleet, 160.0).nodes["n2"].state == NodeState.LOST


def test_what_an_operator_wants_of_a_silent_node_shows_when_it_is_back() -> None:
    fleet = _age(a_fleet(an_introduction()), 15.0)

    wanted = intended(fleet, "n1", NodeState.CORDONED, at=LATER)
    back = heard(wanted, "n1", connection=1, now=16.0, at=LATER)

    assert (_node(wanted).state, _node(wanted).since) == (NodeState.UNREACHABLE, _node(fleet).since)
    assert _node(back).state == NodeState.CORDONED


def test_an_intent_moves_since_only_when_the_state_changes() -> None:
    cordoned = intended(a_fleet(an_introduction()), "n1", NodeState.CORDONED, at=LATER)

    again = intended(cordoned, "n1", NodeState.CORDONED, at=LATER + timedelta(seconds=9))

    assert (_node(cordoned).state, _node(cordoned).since) == (NodeState.CORDONED, LATER)
    assert _node(again).since == LATER


def test_an_assigned_shard_is_pending_with_its_claim_before_the_node_has_answered() -> None:
    shard = _node(assigned(a_fleet(an_introduction()), "n1", _spec())).shards["gemma.0.0"]

    assert (shard.phase, shard.min_memory_gb, shard.profile) == (Phase.PENDING, 2, "cpu")
    assert shard.fingerprint == MODEL.profiles[0].fingerprint()


@pytest.mark.parametrize(
    ("before", "after", "taken"),
    [
        (Phase.PENDING, Phase.STARTING, True),
        (Phase.PENDING, Phase.READY, True),  # a transition in between was lost
        (Phase.READY, Phase.STARTING, False),
        (Phase.FAILED, Phase.READY, False),
        (Phase.DRAINING, Phase.READY, False),
        (Phase.READY, Phase.READY, True),
    ],
)
def test_a_transition_is_taken_when_it_can_follow_what_was_known(
    before: Phase, after: Phase, taken: bool
) -> None:
    fleet = a_fleet(an_introduction(shards=(a_shard(phase=before),)))

    fleet = shard_reported(fleet, "n1", a_shard(phase=after, pid=77), connection=1, now=1.0)

    assert (_node(fleet).shards["gemma.0.0"].pid == 77) is taken


def test_a_report_of_an_older_generation_is_ignored_and_of_a_later_one_taken() -> None:
    fleet = a_fleet(an_introduction(shards=(a_shard(generation=(1, 2), phase=Phase.STARTING),)))

    older = shard_reported(fleet, "n1", a_shard(generation=(1, 1)), connection=1, now=1.0)
    later = shard_reported(
        fleet, "n1", a_shard(generation=(1, 3), phase=Phase.PENDING), connection=1, now=1.0
    )

    assert older is fleet
    assert _node(later).shards["gemma.0.0"].generation == Generation(1, 3)


def test_a_stopped_shard_is_forgotten_with_what_it_was_told() -> None:
    fleet = told_to_stop(a_fleet(an_introduction(shards=(a_shard(),))), "n1", "gemma.0.0", Generation(1, 1))

    fleet = shard_reported(fleet, "n1", a_shard(phase=Phase.STOPPED), connection=1, now=1.0)

    assert (_node(fleet).shards, _node(fleet).stopping) == ({}, {})


def test_a_shard_that_the_server_did_not_know_is_taken_as_it_is_reported() -> None:
    fleet = shard_reported(a_fleet(an_introduction()), "n1", a_shard(), connection=1, now=1.0)

    assert _node(fleet).shards == {"gemma.0.0": a_shard()}


def test_failures_are_counted_and_health_is_remembered() -> None:
    fleet = a_fleet(an_introduction(shards=(a_shard(phase=Phase.STARTING),)))

    failed = shard_reported(fleet, "n1", a_shard(phase=Phase.FAILED), connection=1, now=4.0)
    repeated = shard_reported(failed, "n1", a_shard(phase=Phase.FAILED), connection=1, now=5.0)
    ready = shard_reported(fleet, "n1", a_shard(), connection=1, now=6.0)

    assert failed.attempts["gemma.0"] == Attempts(count=1, failed_now=4.0, failed=Generation(1, 1))
    assert repeated.attempts == failed.attempts
    assert ready.attempts["gemma.0"] == Attempts(ready_now=6.0)


def test_a_shard_told_to_stop_is_leaving_and_a_later_generation_of_it_is_not() -> None:
    fleet = told_to_stop(a_fleet(an_introduction(shards=(a_shard(),))), "n1", "gemma.0.0", Generation(1, 1))

    assert is_leaving(_node(fleet), a_shard())
    assert not is_leaving(_node(fleet), a_shard(generation=(1, 2)))
    assert is_leaving(_node(fleet), a_shard("other", phase=Phase.DRAINING))


def test_a_stop_that_was_taken_ends_what_does_not_run_and_leaves_what_runs_to_report_its_end() -> None:
    for phase, gone in ((Phase.FAILED, True), (Phase.READY, False), (Phase.PENDING, False)):
        fleet = a_fleet(an_introduction(shards=(a_shard(phase=phase, generation=(1, 2)),)))
        fleet = told_to_stop(fleet, "n1", "gemma.0.0", Generation(1, 2))

        newer = stop_taken(fleet, "n1", "gemma.0.0", Generation(1, 1), connection=1)
        taken = stop_taken(fleet, "n1", "gemma.0.0", Generation(1, 2), connection=1)

        assert newer is fleet
        assert ("gemma.0.0" not in _node(taken).shards) is gone


def test_a_refused_start_is_a_failure_with_the_reason_of_the_node() -> None:
    fleet = assigned(a_fleet(an_introduction()), "n1", _spec())

    fleet = start_refused(fleet, "n1", _spec(), "no engine llama.cpp", connection=1, now=3.0)
    again = start_refused(fleet, "n1", _spec(), "no engine llama.cpp", connection=1, now=4.0)
    of_another = start_refused(fleet, "n1", _spec((1, 2)), "no", connection=1, now=4.0)

    shard = _node(fleet).shards["gemma.0.0"]
    assert (shard.phase, shard.reason) == (Phase.FAILED, "no engine llama.cpp")
    assert fleet.attempts["gemma.0"].count == 1
    assert again is fleet
    assert of_another is fleet


def test_failures_of_models_that_left_are_forgotten() -> None:
    fleet = a_fleet(an_introduction(shards=(a_shard("a.b"), a_shard("c"))))

    assert set(forgetting(fleet, {"a.b"}).attempts) == {"a.b.0"}
    assert forgetting(fleet, {"a.b", "c"}) is fleet


def test_an_observation_leaves_the_fleet_it_was_made_from_as_it_was() -> None:
    fleet = a_fleet(an_introduction(shards=(a_shard(),)))
    before = replace(fleet)

    shard_reported(fleet, "n1", a_shard(phase=Phase.FAILED), connection=1, now=1.0)
    told_to_stop(fleet, "n1", "gemma.0.0", Generation(1, 1))
    assigned(fleet, "n1", _spec((1, 2)))

    assert fleet == before


def test_the_ranks_of_a_replica_fail_once_together() -> None:
    ranks = [a_shard(rank=rank, ranks=2, phase=Phase.FAILED) for rank in (0, 1)]
    fleet = a_fleet(an_introduction("n1"), an_introduction("n2"))

    fleet = shard_reported(fleet, "n2", ranks[1], connection=2, now=4.0)
    fleet = shard_reported(fleet, "n1", ranks[0], connection=1, now=5.0)

    assert fleet.attempts["gemma.0"] == Attempts(count=1, failed_now=4.0, failed=Generation(1, 1))


def test_a_rank_that_merely_runs_is_no_health_of_its_replica() -> None:
    fleet = a_fleet(an_introduction("n1"), an_introduction("n2"))

    running = shard_reported(fleet, "n2", a_shard(rank=1, ranks=2), connection=2, now=4.0)
    answering = shard_reported(running, "n1", a_shard(rank=0, ranks=2), connection=1, now=5.0)

    assert running.attempts == {}
    assert answering.attempts["gemma.0"].ready_now == 5.0


def _renamed() -> Fleet:
    """A node that was called "old" and now is "new", with the same engine."""
    fleet = a_fleet(an_introduction("old", shards=(a_shard(),)))
    fleet = disconnected(fleet, "old", connection=1, now=0.0, at=LATER)
    return register(fleet, an_introduction("new", shards=(a_shard(),)), connection=2, now=1.0, at=LATER)


def test_a_renamed_node_keeps_nothing_under_its_old_name_once_that_is_lost() -> None:
    before = _renamed()

    after = aged(before, now=60.0, at=LATER, unreachable_after_s=1e9, lost_after_s=60.0)

    assert before.nodes["old"].shards.keys() == {"gemma.0.0"}
    assert after.nodes["old"].shards == {}
    assert after.nodes["new"].shards.keys() == {"gemma.0.0"}


def test_a_node_that_is_renamed_again_and_again_is_not_most_of_a_fleet_that_fell_silent() -> None:
    fleet = a_fleet(an_introduction("other"))
    for number, name in enumerate(("first", "second", "third"), start=2):
        said = an_introduction(name, shards=(a_shard(),))
        fleet = register(fleet, said, connection=number, now=0.0, at=LATER)
        if name != "third":
            fleet = disconnected(fleet, name, connection=number, now=0.0, at=LATER)

    early = aged(fleet, now=1.0, at=LATER, unreachable_after_s=1e9, lost_after_s=60.0)
    late = aged(early, now=60.0, at=LATER, unreachable_after_s=1e9, lost_after_s=60.0)

    assert early.silence.alarm is None
    assert [late.nodes[name].state for name in ("first", "second", "third")] == [
        NodeState.LOST,
        NodeState.LOST,
        NodeState.READY,
    ]


def test_nodes_that_run_what_nobody_else_tells_of_are_silent() -> None:
    shards = (a_shard(), a_shard("other"))
    fleet = a_fleet(*(an_introduction(name, shards=shards) for name in ("n1", "n2")))
    for number, name in enumerate(("n1", "n2"), start=1):
        fleet = disconnected(fleet, name, connection=number, now=0.0, at=LATER)
    fleet = register(fleet, an_introduction("n3", shards=(a_shard(),)), connection=3, now=0.0, at=LATER)

    fleet = aged(fleet, now=1.0, at=LATER, unreachable_after_s=1e9, lost_after_s=60.0)

    assert fleet.silence.alarm is not None
    assert fleet.silence.alarm.nodes == ("n1", "n2")


def test_a_node_that_is_renamed_after_it_was_lost_keeps_nothing_under_its_old_name() -> None:
    fleet = a_fleet(an_introduction("old", shards=(a_shard(), a_shard("other"))))
    fleet = disconnected(fleet, "old", connection=1, now=0.0, at=LATER)
    fleet = aged(fleet, now=60.0, at=LATER, unreachable_after_s=1e9, lost_after_s=60.0)

    fleet = register(fleet, an_introduction("new", shards=(a_shard(),)), connection=2, now=61.0, at=LATER)

    assert fleet.nodes["old"].shards.keys() == {"other.0.0"}


def test_another_generation_on_another_node_is_another_process() -> None:
    fleet = a_fleet(
        an_introduction("n1", shards=(a_shard(generation=(1, 1)),)),
        an_introduction("n2", shards=(a_shard(generation=(1, 2)),)),
    )
    fleet = disconnected(fleet, "n1", connection=1, now=0.0, at=LATER)

    fleet = aged(fleet, now=60.0, at=LATER, unreachable_after_s=1e9, lost_after_s=60.0)

    assert fleet.nodes["n1"].shards.keys() == {"gemma.0.0"}


def test_what_was_measured_outlives_an_introduction_on_the_same_connection_alone() -> None:
    use = ShardUse(shard="gemma.0.0", memory_bytes=5)
    fleet = a_fleet(an_introduction(shards=(a_shard(),)))
    fleet = heard(fleet, "n1", connection=1, now=1.0, at=LATER, said=Beat(uses=(use,)))
    said = an_introduction(shards=(a_shard(),))

    same = register(fleet, said, connection=1, now=2.0, at=LATER)
    other = register(fleet, said, connection=2, now=2.0, at=LATER)

    assert same.nodes["n1"].uses == {"gemma.0.0": use}
    assert other.nodes["n1"].uses == {}
