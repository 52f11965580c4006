import logging

import pytest
from fakes.clock import FakeClock
from fakes.nodes import LLAMA, a_shard, an_introduction

from llmgw.control.fleet import ObservedFleet
from llmgw.core.fleet.beat import Beat
from llmgw.core.fleet.hardware import Memory
from llmgw.core.fleet.shards import Phase
from llmgw.core.fleet.snapshot import NodeState


class _Watched:
    """An observed fleet with one node, and how often its listener was woken since."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.fleet = ObservedFleet(self.clock)
        self.fleet.register(an_introduction(shards=(a_shard(),)), connection=1, on_the_way={})
        self.woken = 0
        self.fleet.listen(self._wake)

    def _wake(self) -> None:
        self.woken += 1

    @property
    def state(self) -> NodeState:
        return self.fleet.value.nodes["n1"].state


@pytest.fixture
def watched() -> _Watched:
    return _Watched()


def test_a_sign_of_life_wakes_nobody_though_it_is_kept(watched: _Watched) -> None:
    watched.clock.advance(3)

    watched.fleet.heard("n1", connection=1, said=Beat(memory=Memory(total_bytes=5)))

    assert watched.woken == 0
    assert watched.fleet.value.nodes["n1"].heard_now == 3.0
    assert watched.fleet.value.nodes["n1"].machine.memory == Memory(total_bytes=5)


def test_a_change_of_engines_or_of_state_wakes(watched: _Watched) -> None:
    watched.fleet.heard("n1", connection=1, said=Beat(engines=()))
    after_engines = watched.woken
    watched.clock.advance(20)
    watched.fleet.age(unreachable_after_s=15, lost_after_s=60)
    after_silence = watched.woken
    watched.fleet.heard("n1", connection=1)

    assert (after_engines, after_silence, watched.woken) == (1, 2, 3)
    assert watched.state == NodeState.READY


def test_a_register_a_transition_and_a_disconnection_wake(watched: _Watched) -> None:
    watched.fleet.register(an_introduction(engines=(LLAMA,)), connection=2, on_the_way={})
    watched.fleet.shard_reported("n1", a_shard(phase=Phase.STARTING), connection=2)
    watched.fleet.disconnected("n1", connection=2)

    assert watched.woken == 3
    assert watched.state == NodeState.UNREACHABLE


def test_what_changes_nothing_wakes_nobody(watched: _Watched) -> None:
    watched.fleet.heard("unknown", connection=1)
    watched.fleet.disconnected("n1", connection=99)
    watched.fleet.age(unreachable_after_s=15, lost_after_s=60)
    watched.fleet.forget_failures({"gemma"})

    assert watched.woken == 0


def test_a_stall_of_the_server_is_forgiven_without_waking(watched: _Watched) -> None:
    watched.clock.advance(100)

    watched.fleet.forgive()
    watched.fleet.age(unreachable_after_s=15, lost_after_s=60)

    assert watched.woken == 0
    assert watched.state == NodeState.READY


def test_failures_of_models_that_left_are_forgotten(watched: _Watched) -> None:
    watched.fleet.forget_failures({"other"})

    assert watched.fleet.value.attempts == {}


def test_changes_of_state_are_logged_with_what_was_before(
    watched: _Watched, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    watched.fleet.register(an_introduction("n2", version="1.0"), connection=2, on_the_way={})
    watched.fleet.disconnected("n1", connection=1)
    watched.clock.advance(60)
    watched.fleet.age(unreachable_after_s=1000, lost_after_s=60)

    assert [(r.levelname, r.getMessage()) for r in caplog.records] == [
        ("INFO", "node n2: registered from 127.0.0.1 (version 1.0)"),
        ("WARNING", "node n1: unreachable, was ready for 0 s"),
        ("WARNING", "node n1: lost, was unreachable for 60 s"),
    ]
