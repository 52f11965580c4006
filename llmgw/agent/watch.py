"""Watching one engine's health by asking it again and again, from wherever it is in its life.

1. Starting ends with a healthy answer or with its deadline, which counts from the launch and which nothing moves: not
   an agent that was started again meanwhile either.
2. A ready engine that stops answering says so, and is given up when that lasts (Timings): it may be busy.
3. The first look is at once, so that an engine that was adopted is known within one answer.
4. A rank that serves no HTTP is never asked: what answers on its port may say yes to everything. It is ready when it
   has run for a moment (`settled_s`), which says nothing of its replica: that is ready when rank 0 answers too.
"""

import asyncio
from typing import Protocol

from llmgw.agent.health import ask
from llmgw.agent.home import Home
from llmgw.agent.preflight import Plan
from llmgw.core.fleet.shards import Phase, ShardState
from llmgw.core.units import show_seconds
from llmgw.engines.engine import Readiness


class Watched(Protocol):
    """Whose engine is watched."""

    @property
    def state(self) -> ShardState:
        """What was reported last."""

    @property
    def since_now(self) -> float:
        """When its phase began, monotonic seconds."""

    async def answered(self) -> str | None:
        """Take the first healthy answer; returns why it does not count, if so."""

    def asked(self) -> None:
        """Take that the engine was asked once more."""

    def noted(self, reason: str | None) -> None:
        """Take that a ready engine does not answer, or with None that it does again."""

    def proven(self) -> None:
        """Take that the engine has been ready for long."""


class Watch:
    """One engine's health. `run` is the only one to ask."""

    def __init__(self, watched: Watched, plan: Plan, home: Home) -> None:
        self._watched = watched
        self._plan = plan
        self._clock = home.clock
        self._timings = home.timings

    async def run(self) -> str:
        """Ask until the engine must be given up; returns why, in words. One that is not asked is never given up."""
        if not self._plan.launch.health_path:
            return await self._unasked()
        if self._watched.state.phase == Phase.STARTING and (why := await self._starting()):
            return why
        return await self._ready()

    async def _unasked(self) -> str:
        if self._watched.state.phase == Phase.STARTING:
            await self._until(self._timings.settled_s)
            if (why := await self._watched.answered()) is not None:
                return why
        await self._until(self._timings.healthy_s)
        self._watched.proven()
        while True:
            await asyncio.sleep(self._timings.poll_ready_s)
            self._watched.asked()

    async def _until(self, for_s: float) -> None:
        """Wait until its phase has lasted for so long."""
        while (left_s := self._watched.since_now + for_s - self._clock.now()) > 0:
            self._watched.asked()
            await asyncio.sleep(min(left_s, self._timings.poll_ready_s))

    async def _starting(self) -> str | None:
        limit_s = self._plan.limit_s
        while True:
            heard = await self._heard()
            if heard == Readiness.READY:
                return await self._watched.answered()
            if self._clock.now() - self._watched.since_now >= limit_s:
                return f"not ready within {show_seconds(limit_s)} (it {said(heard)})"
            await asyncio.sleep(self._timings.poll_starting_s)

    async def _ready(self) -> str:
        heard_now, proven = self._clock.now(), False
        silent = self._watched.state.phase == Phase.READY and self._watched.state.reason is not None
        while True:
            heard, now = await self._heard(), self._clock.now()
            if heard == Readiness.READY:
                heard_now = now
            for_s = now - heard_now
            if for_s >= self._timings.hung_after_s:
                return f"unhealthy for {show_seconds(for_s)} (it {said(heard)})"
            # An adopted engine that was silent before stays so until it answers.
            if (for_s >= self._timings.silent_after_s or (silent and for_s > 0)) != silent:
                silent = not silent
                words = f"no healthy answer for {show_seconds(for_s)} (it {said(heard)})"
                self._watched.noted(words if silent else None)
            if not proven and now - self._watched.since_now >= self._timings.healthy_s:
                proven = True
                self._watched.proven()
            await asyncio.sleep(self._timings.poll_ready_s)

    async def _heard(self) -> Readiness | None:
        """Ask once; None means that nothing answered."""
        plan = self._plan
        path, within_s = plan.launch.health_path, self._timings.answer_s
        self._watched.asked()
        status, body = await ask(plan.host, plan.port, path, within_s=within_s)
        readiness = plan.engine.readiness(status, body)
        return None if status is None and readiness != Readiness.READY else readiness


def said(heard: Readiness | None) -> str:
    """Put what was heard into words that follow on `it`."""
    if heard is None:
        return "does not answer"
    return "says that it is loading" if heard == Readiness.LOADING else "answers that something is broken"
