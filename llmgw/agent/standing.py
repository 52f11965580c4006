"""Where a shard is: its state as it is reported, since when, and the steps it may take."""

import asyncio
import logging

from msgspec.structs import replace

from llmgw.agent.home import Home
from llmgw.agent.preflight import Plan
from llmgw.agent.processes import Identity
from llmgw.core.fleet.shards import Phase, ShardSpec, ShardState, may_follow, pending_state
from llmgw.core.fleet.weights import Progress

log = logging.getLogger("llmgw.agent.shard")


class Standing:
    """The state of one shard; every step is logged and reported. Written by its shard and by its running process.

    Attributes:
        since_now: monotonic seconds at which its phase began.
        drain_ends_now: when its drain ends, in the same seconds; None when it is not drained.
        changed: set by every step whose record is still to be written.
    """

    def __init__(self, state: ShardState, home: Home, since_now: float | None = None) -> None:
        self.state = state
        self.since_now = home.clock.now() if since_now is None else min(since_now, home.clock.now())
        self.drain_ends_now: float | None = None
        self.changed = asyncio.Event()
        self._home = home

    @property
    def phase(self) -> Phase:
        """Its phase."""
        return self.state.phase

    def report(self) -> None:
        """Report where it is, once more."""
        self._home.report(self.state)

    def after(self, phase: Phase, **changes: object) -> ShardState:
        """Make the state that it would have in `phase` from now on."""
        since_s = self._home.clock.at().timestamp()
        return replace(
            self.state, phase=phase, since_s=since_s, **({"reason": None, "progress": None} | changes)
        )

    def starting(self, process: Identity, plan: Plan) -> ShardState:
        """Make the state of starting as this process; another try leaves the time at which starting began."""
        where = {"host": plan.host, "port": plan.port, "pid": process.pid, "engine_version": plan.version}
        if self.phase == Phase.STARTING:
            return replace(self.state, **where)
        return self.after(Phase.STARTING, **where)

    def enter(self, phase: Phase, **changes: object) -> None:
        """Step into a phase; its record is to be written."""
        self.take(self.after(phase, **changes))
        self.changed.set()

    def take(self, state: ShardState) -> None:
        """Step into a state whose record, if it has one, is written already."""
        again = state.phase == self.phase == Phase.STARTING
        if not again and not may_follow(self.phase, state.phase):
            log.error("shard %s: %s cannot follow %s", state.shard, state.phase, self.phase)
            return
        self.state = state
        if not again:
            self.since_now = self._home.clock.now()
        why = f": {state.reason}" if state.reason else ""
        log.info("shard %s (%s): %s%s", state.shard, state.generation, state.phase, why)
        self.report()

    def going(self, progress: Progress, trouble: str | None) -> None:
        """Say how far the download is that it waits for; this is no step, and nothing new is not said."""
        state = replace(self.state, progress=progress, reason=trouble)
        if state != self.state:
            self.state = state
            self.report()

    def note(self, reason: str | None) -> None:
        """Say something about the phase it is in, or with None that this is over."""
        self.state = replace(self.state, reason=reason)
        self.report()


def pending(spec: ShardSpec, home: Home) -> ShardState:
    """Make the state of a shard that was just asked for."""
    profile = spec.profile
    engine = home.engines.get(profile.engine)
    return replace(
        pending_state(spec),
        since_s=home.clock.at().timestamp(),
        tasks=None if engine is None else engine.tasks(profile),
        capacity=None if engine is None else engine.capacity(profile),
    )
