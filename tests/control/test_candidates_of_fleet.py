"""Watching for nodes that come to fit what fitted nowhere."""

from itertools import pairwise

from fakes.catalogs import a_model, a_profile
from fakes.fleets import a_fleet
from fakes.nodes import an_introduction

from llmgw.control.candidates import Candidates
from llmgw.core.fleet.snapshot import Node
from llmgw.core.placement.place import demands_of

ASKED = [("big", demand) for _, demand in demands_of(a_model(profiles=(a_profile(min_memory_gb=8),)))]


def a_node(free_gb: float) -> Node:
    return a_fleet(an_introduction(free_gb=free_gb)).nodes["n1"]


def watching() -> Candidates:
    candidates = Candidates()
    candidates.fit_nowhere(ASKED)
    return candidates


def test_where_nothing_waits_for_room_nobody_qualifies() -> None:
    assert Candidates().said(a_node(3), a_node(9)) == ()


def test_a_node_qualifies_once() -> None:
    candidates = watching()

    said = [candidates.said(a_node(3), a_node(9)), candidates.said(a_node(9), a_node(10))]

    assert [len(found) for found in said] == [1, 0]


def test_memory_that_comes_slowly_is_noticed_as_well() -> None:
    candidates = watching()
    steps = [7.9 + 0.01 * step for step in range(20)]

    said = [candidates.said(a_node(before), a_node(after)) for before, after in pairwise(steps)]

    assert [one.model for found in said for one in found] == ["big"]


def test_a_node_that_lost_memory_and_has_it_again_qualifies_again() -> None:
    candidates = watching()
    candidates.said(a_node(3), a_node(9))
    candidates.said(a_node(9), a_node(3))

    assert [one.text for one in candidates.said(a_node(3), a_node(9))] == ["memory 3.0 GiB -> 9.0 GiB"]


def test_a_node_that_was_forgotten_is_looked_at_anew() -> None:
    candidates = watching()
    candidates.said(a_node(3), a_node(9))
    candidates.forget_all_but(())

    assert len(candidates.said(a_node(3), a_node(9))) == 1
