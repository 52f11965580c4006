"""Copies of replicas: whole or not, and one process that is told under two names (RUN-11)."""

import pytest
from fakes.fleets import AT, a_fleet
from fakes.nodes import a_shard, an_introduction

from llmgw.core.fleet.copies import Copy, observed_copies
from llmgw.core.fleet.shards import Phase
from llmgw.core.fleet.snapshot import (
    Fleet,
    Introduction,
    aged,
    disconnected,
    forgiven,
    heard,
    told_to_stop,
)
from llmgw.core.ids import Generation


def _on(node: str, rank: int = 0, phase: Phase = Phase.READY, **given: object) -> Introduction:
    return an_introduction(node, shards=(a_shard(rank=rank, phase=phase, **({"ranks": 2} | given)),))


def _only(fleet: Fleet) -> Copy:
    (copy,) = observed_copies(fleet)
    return copy


def _lost(fleet: Fleet, node: str) -> Fleet:
    fleet = disconnected(fleet, node, connection=fleet.nodes[node].connection, now=0.0, at=AT)
    return aged(fleet, now=60.0, at=AT, unreachable_after_s=1e9, lost_after_s=60.0)


def test_the_ranks_of_one_generation_are_one_copy_wherever_they_are() -> None:
    copy = _only(a_fleet(_on("n2", 1), _on("n1", 0)))

    assert [member.state.rank for member in copy.members] == [0, 1]
    assert copy.where == "n1, n2"
    assert (copy.is_ready, copy.missing, copy.ranks) == (True, (), 2)


def test_two_generations_are_two_copies() -> None:
    fleet = a_fleet(_on("n1", 0, generation=(1, 1)), _on("n2", 0, generation=(1, 2)))

    assert [copy.generation for copy in observed_copies(fleet)] == [Generation(1, 1), Generation(1, 2)]


@pytest.mark.parametrize(
    ("head", "other", "whole"),
    [
        (Phase.READY, Phase.READY, Phase.READY),
        (Phase.STARTING, Phase.READY, Phase.STARTING),
        (Phase.READY, Phase.STARTING, Phase.STARTING),
        (Phase.STARTING, Phase.PENDING, Phase.PENDING),
        (Phase.READY, Phase.FETCHING, Phase.FETCHING),
        (Phase.FAILED, Phase.READY, Phase.FAILED),
        (Phase.READY, Phase.FAILED, Phase.FAILED),
        (Phase.DRAINING, Phase.READY, Phase.DRAINING),
        (Phase.READY, Phase.DRAINING, Phase.DRAINING),
        (Phase.FAILED, Phase.DRAINING, Phase.FAILED),
        (Phase.STOPPED, Phase.STOPPED, Phase.STOPPED),
    ],
)
def test_a_copy_is_as_its_ranks_are(head: Phase, other: Phase, whole: Phase) -> None:
    copy = _only(a_fleet(_on("n1", 0, head), _on("n2", 1, other)))

    assert copy.phase == whole
    assert copy.is_ready == (whole == Phase.READY)


def test_a_copy_one_of_whose_ranks_was_told_to_stop_is_ending() -> None:
    fleet = told_to_stop(a_fleet(_on("n1", 0), _on("n2", 1)), "n2", "gemma.0.1", Generation(1, 1))

    assert _only(fleet).phase == Phase.DRAINING


def test_a_rank_that_is_nowhere_is_missing() -> None:
    copy = _only(a_fleet(_on("n1", 0)))

    assert copy.missing == (1,)
    assert not copy.is_ready


def test_a_rank_that_ended_without_being_told_to_is_missing() -> None:
    copy = _only(a_fleet(_on("n1", 0), _on("n2", 1, Phase.STOPPED)))

    assert copy.missing == (1,)


def test_a_rank_on_a_lost_node_is_missing_and_where_it_was_is_remembered() -> None:
    copy = _only(_lost(a_fleet(_on("n1", 0), _on("n2", 1)), "n2"))

    assert copy.missing == (1,)
    assert [member.node.id for member in copy.lost] == ["n2"]


def test_a_failed_rank_that_was_told_to_stop_is_nothing_any_more() -> None:
    fleet = told_to_stop(a_fleet(_on("n1", 0, Phase.FAILED)), "n1", "gemma.0.0", Generation(1, 1))

    assert observed_copies(fleet) == []


@pytest.mark.parametrize("order", [("old", "new"), ("new", "old")])
def test_of_one_process_told_by_two_nodes_the_one_within_reach_counts(order: tuple[str, str]) -> None:
    fleet = a_fleet(*(_on(node, ranks=1) for node in order))
    fleet = disconnected(fleet, "old", connection=fleet.nodes["old"].connection, now=0.0, at=AT)

    assert _only(fleet).where == "new"


def test_two_nodes_that_both_speak_later_have_two_processes_and_the_one_that_counts_comes_last() -> None:
    fleet = a_fleet(_on("a", ranks=1), _on("b", ranks=1))

    early, late = (heard(fleet, "a", connection=1, now=now, at=AT) for now in (0.9, 1.0))

    assert [copy.where for copy in observed_copies(early)] == ["b"]
    assert [copy.where for copy in observed_copies(late)] == ["a", "b"]


def test_a_stall_of_the_server_makes_nobody_speak() -> None:
    fleet = forgiven(a_fleet(_on("a", ranks=1), _on("b", ranks=1)), now=9.0)

    assert [copy.where for copy in observed_copies(fleet)] == ["b"]


def test_a_second_process_of_one_rank_is_a_copy_that_is_broken() -> None:
    fleet = a_fleet(_on("n1", 0), _on("n2", 1), _on("n3", 1))
    fleet = heard(fleet, "n2", connection=2, now=2.0, at=AT)

    second, first = observed_copies(fleet)

    assert (second.where, second.missing) == ("n2", (0,))
    assert (first.where, first.missing) == ("n1, n3", ())


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_of_one_process_told_by_two_nodes_within_reach_the_one_that_connected_last_counts(
    order: tuple[str, str],
) -> None:
    assert _only(a_fleet(*(_on(node, ranks=1) for node in order))).where == order[1]
