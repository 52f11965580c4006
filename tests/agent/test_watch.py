"""Watching an engine's health, with a clock that is moved by hand."""

import asyncio
from pathlib import Path

from fakes.agent import QUICK, FakeAgent
from fakes.clock import FakeClock
from fakes.scripted_engine import FakeEngine
from msgspec.structs import replace

from llmgw.agent.preflight import Plan
from llmgw.agent.standing import pending
from llmgw.agent.watch import Watch, said
from llmgw.core.fleet.shards import Phase, ShardState
from llmgw.engines.engine import Launch, Readiness


class Engine:
    """Whose engine is watched; every question moves the clock."""

    def __init__(self, state: ShardState, clock: FakeClock, step_s: float) -> None:
        self.state = state
        self.since_now = 0.0
        self.notes: list[str | None] = []
        self.made: dict[str, float] = {}
        self.news = asyncio.Event()
        self.clock = clock
        self._step_s = step_s

    async def answered(self) -> str | None:
        self._make("answered")
        return None

    def asked(self) -> None:
        self.clock.advance(self._step_s)

    def noted(self, reason: str | None) -> None:
        self.notes.append(reason)

    def proven(self) -> None:
        self.notes.append("proven")
        self._make("proven")

    def _make(self, what: str) -> None:
        self.made.setdefault(what, self.clock.now())
        self.news.set()


def watch(folder: Path, phase: Phase, step_s: float, reason: str | None = None) -> tuple[Engine, Watch]:
    """Make the watch of an engine that nobody can reach."""
    agent, clock = FakeAgent(folder), FakeClock()
    timings = replace(QUICK, poll_starting_s=0.0, poll_ready_s=0.0, healthy_s=1e9)
    home = replace(agent.home, clock=clock, timings=timings)
    state = replace(pending(agent.spec(), home), phase=phase, reason=reason)
    engine = Engine(state, clock, step_s)
    plan = Plan(engine=FakeEngine(), launch=Launch(argv=()), host="127.0.0.1", port=1, limit_s=300.0)
    return engine, Watch(engine, plan, home)


async def test_a_start_ends_at_its_deadline_counted_from_its_begin(tmp_path: Path) -> None:
    engine, watched = watch(tmp_path, Phase.STARTING, 100.0)
    engine.since_now = -250.0

    why = await watched.run()

    assert why == "not ready within 5 min (it does not answer)"
    assert engine.notes == []


async def test_a_ready_engine_is_noted_and_then_given_up(tmp_path: Path) -> None:
    engine, watched = watch(tmp_path, Phase.READY, 100.0)

    why = await watched.run()

    assert engine.notes == ["no healthy answer for 100 s (it does not answer)"]
    assert why == "unhealthy for 5 min (it does not answer)"


async def test_an_adopted_engine_that_was_noted_already_is_not_noted_again(tmp_path: Path) -> None:
    engine, watched = watch(tmp_path, Phase.READY, 100.0, reason="no healthy answer for 12 s")

    await watched.run()

    assert engine.notes == []


def test_what_was_heard_is_said_in_words() -> None:
    assert [said(heard) for heard in (None, Readiness.LOADING, Readiness.BROKEN)] == [
        "does not answer",
        "says that it is loading",
        "answers that something is broken",
    ]


def follower(folder: Path, phase: Phase) -> tuple[Engine, Watch]:
    """Make the watch of a rank that serves no HTTP; every look takes half a second."""
    agent, clock = FakeAgent(folder), FakeClock()
    home = replace(
        agent.home, clock=clock, timings=replace(QUICK, poll_ready_s=0.0, settled_s=2.0, healthy_s=10.0)
    )
    engine = Engine(replace(pending(agent.spec(), home), phase=phase), clock, 0.5)
    plan = Plan(
        engine=FakeEngine(), launch=Launch(argv=(), health_path=""), host="127.0.0.1", port=1, limit_s=1.0
    )
    return engine, Watch(engine, plan, home)


async def _watched_until(engine: Engine, watched: Watch, note: str) -> float:
    """Watch until a note is made; returns the time at which it was."""
    task = asyncio.create_task(watched.run())
    async with asyncio.timeout(10.0):
        while note not in engine.made:
            engine.news.clear()
            await engine.news.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return engine.made[note]


async def test_a_rank_that_is_not_asked_is_ready_when_it_has_run_for_a_moment(tmp_path: Path) -> None:
    engine, watched = follower(tmp_path, Phase.STARTING)

    at = await _watched_until(engine, watched, "answered")

    assert at == 2.0


async def test_a_rank_that_is_not_asked_is_never_given_up_and_proven_after_long(tmp_path: Path) -> None:
    engine, watched = follower(tmp_path, Phase.READY)

    at = await _watched_until(engine, watched, "proven")

    assert at == 10.0
    assert "answered" not in engine.made
