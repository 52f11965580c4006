"""The alarm over random comings and goings: raised when most of a fleet goes, and nobody is lost while it lasts."""

from datetime import timedelta

from fakes.fleets import AT, a_fleet
from fakes.nodes import an_introduction
from hypothesis import given, settings
from hypothesis import strategies as st

from llmgw.core.fleet.silence import Alarm, Silence, accept, watch
from llmgw.core.fleet.snapshot import (
    Fleet,
    NodeState,
    aged,
    disconnected,
    forgiven,
    forgotten,
    register,
    silence_accepted,
)

LOST_AFTER_S = 60.0


def _fleet(count: int) -> Fleet:
    return a_fleet(*(an_introduction(f"n{i}") for i in range(count)))


def _gone(fleet: Fleet, *nodes: str, now: float = 0.0) -> Fleet:
    for node in nodes:
        fleet = disconnected(fleet, node, connection=fleet.nodes[node].connection, now=now, at=AT)
    return fleet


def _back(fleet: Fleet, *nodes: str, now: float) -> Fleet:
    latest = max(node.connection for node in fleet.nodes.values())
    for number, node in enumerate(nodes, start=latest + 1):
        fleet = register(fleet, an_introduction(node), connection=number, now=now, at=AT)
    return fleet


def _age(fleet: Fleet, now: float, *, patient: bool = False) -> Fleet:
    at = AT + timedelta(seconds=now)
    return aged(fleet, now=now, at=at, unreachable_after_s=1e9, lost_after_s=LOST_AFTER_S, patient=patient)


def _lost(fleet: Fleet) -> set[str]:
    return {node.id for node in fleet.nodes.values() if node.state == NodeState.LOST}


def test_more_than_half_of_three_nodes_is_an_alarm_that_names_them_and_nobody_is_lost() -> None:
    fleet = _age(_gone(_fleet(3), "n2", "n0", now=5.0), 5.0)

    late = _age(fleet, 1000.0)

    assert fleet.silence.alarm == Alarm(since=AT + timedelta(seconds=5), nodes=("n0", "n2"), fleet=3)
    assert late.silence.alarm == fleet.silence.alarm
    assert _lost(late) == set()


def test_two_nodes_or_half_of_a_fleet_are_no_alarm() -> None:
    both = _age(_gone(_fleet(2), "n0", "n1"), 60.0)
    half = _age(_gone(_fleet(4), "n0", "n1"), 60.0)

    assert (both.silence.alarm, _lost(both)) == (None, {"n0", "n1"})
    assert (half.silence.alarm, _lost(half)) == (None, {"n0", "n1"})


def test_nodes_that_go_one_after_the_other_with_a_lost_timeout_between_are_no_alarm() -> None:
    fleet = _fleet(5)

    for number in range(5):
        fleet = _age(_gone(fleet, f"n{number}", now=100.0 * number), 100.0 * number)
        fleet = _age(fleet, 100.0 * number + LOST_AFTER_S)
        assert fleet.silence.alarm is None

    assert len(_lost(fleet)) == 5


def test_the_last_moment_before_the_first_is_lost_still_counts_as_together() -> None:
    fleet = _age(_gone(_fleet(3), "n0", now=0.0), 59.0)

    fleet = _age(_gone(fleet, "n1", now=59.5), 60.0)

    assert fleet.silence.alarm is not None
    assert _lost(fleet) == set()


def test_who_goes_while_the_alarm_lasts_joins_it() -> None:
    fleet = _age(_gone(_fleet(5), "n0", "n1", "n2"), 1.0)

    fleet = _age(_gone(fleet, "n3", now=500.0), 900.0)

    assert fleet.silence.alarm is not None
    assert fleet.silence.alarm.nodes == ("n0", "n1", "n2", "n3")
    assert _lost(fleet) == set()


def test_when_half_of_the_fleet_is_back_the_alarm_ends_and_the_others_have_their_time_anew() -> None:
    fleet = _age(_gone(_fleet(5), "n0", "n1", "n2"), 1.0)
    waiting = _age(fleet, 500.0)

    ended = _age(_back(waiting, "n0", now=600.0), 600.0)

    assert waiting.silence.alarm is not None
    assert ended.silence.alarm is None
    assert _lost(_age(ended, 659.0)) == set()
    assert _lost(_age(ended, 660.0)) == {"n1", "n2"}


def test_new_nodes_do_not_end_the_alarm() -> None:
    fleet = _age(_gone(_fleet(3), "n0", "n1"), 1.0)

    fleet = _age(_back(fleet, "n7", "n8", "n9", now=2.0), 500.0)

    assert fleet.silence.alarm is not None
    assert _lost(fleet) == set()


def test_what_an_operator_accepts_is_lost_when_its_time_is_over_and_raises_no_other_alarm() -> None:
    fleet = _age(_gone(_fleet(5), "n0", "n1", "n2", now=1.0), 1.0)

    early = _age(silence_accepted(fleet), 2.0)
    late = _age(early, 61.0)

    assert (early.silence.alarm, _lost(early)) == (None, set())
    assert (late.silence.alarm, _lost(late)) == (None, {"n0", "n1", "n2"})
    assert _age(late, 62.0).silence == Silence()


def test_a_node_that_was_back_after_it_was_accepted_counts_anew() -> None:
    fleet = silence_accepted(_age(_gone(_fleet(3), "n0", "n1"), 1.0))
    back = _age(_back(fleet, "n0", "n1", now=2.0), 2.0)

    again = _age(_gone(back, "n0", "n1", now=3.0), 3.0)

    assert again.silence.alarm is not None


def test_accepting_without_an_alarm_accepts_nothing() -> None:
    assert accept(Silence(), {"n0": 1}) == Silence()


def test_nodes_that_are_forgotten_leave_the_alarm() -> None:
    fleet = _age(_gone(_fleet(4), "n0", "n1", "n2"), 1.0)

    fleet = _age(forgotten(fleet, "n0"), 2.0)

    assert fleet.silence.alarm is None
    assert set(fleet.nodes) == {"n1", "n2", "n3"}


def test_a_silence_that_may_be_our_own_raises_no_alarm_and_loses_nobody() -> None:
    fleet = _gone(_fleet(3), "n0", "n1", "n2")

    patient = _age(fleet, 1000.0, patient=True)

    assert patient.silence == Silence()
    assert _lost(patient) == set()


def test_forgiving_gives_no_time_to_those_who_are_lost_already() -> None:
    lost = _age(_gone(_fleet(2), "n0"), 60.0)

    again = _age(forgiven(lost, now=500.0), 501.0)

    assert (again.nodes["n0"].state, again.nodes["n0"].gone_now) == (NodeState.LOST, 0.0)


NODES = st.sets(st.sampled_from([f"n{i}" for i in range(7)]), max_size=7)


@settings(max_examples=200, deadline=None)
@given(NODES, st.integers(0, 7))
def test_the_alarm_is_raised_exactly_when_most_of_three_or_more_are_away(
    away: set[str], connected: int
) -> None:
    silence = watch(Silence(), connected=connected, undecided=dict.fromkeys(away, 1), at=AT)

    fleet = connected + len(away)
    assert (silence.alarm is not None) == (fleet >= 3 and len(away) > fleet / 2)


STEPS = st.lists(
    st.tuples(st.sampled_from(["go", "come", "accept", "wait"]), st.integers(0, 5), st.floats(0.1, 90.0)),
    max_size=30,
)


@settings(max_examples=200, deadline=None)
@given(STEPS)
def test_nobody_becomes_lost_while_an_alarm_lasts_and_no_more_than_half_at_once_without_a_word(
    steps: list[tuple[str, int, float]],
) -> None:
    fleet, now = _fleet(6), 0.0

    for verb, number, wait_s in steps:
        now += wait_s
        node = f"n{number}"
        before = fleet
        if verb == "go":
            fleet = _gone(fleet, node, now=now)
        elif verb == "come":
            fleet = _back(fleet, node, now=now)
        elif verb == "accept":
            fleet = silence_accepted(fleet)
        accepted = fleet.silence.accepted
        fleet = _age(fleet, now)

        newly = _lost(fleet) - _lost(before)
        if fleet.silence.alarm is not None:
            assert newly == set()
        connected = sum(one.gone_now is None for one in fleet.nodes.values())
        unasked = len(newly - accepted.keys())
        assert connected + unasked < 3 or unasked * 2 <= connected + unasked
