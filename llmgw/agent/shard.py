"""The life of one engine process, from pending or from its adoption to its end, and the report of every step.

    pending -> (fetching ->) starting -> ready -> (draining ->) stopped
         \\----------\\----------\\---------\\------------------> failed

1. Nothing is launched before the profile, the engine, the weights and a port have been looked at, before weights that
   are elsewhere have been fetched, before the memory it needs has been given back, and before there is room for its
   record; a refusal is a failed shard that says what is wrong.
2. A port that a stranger took between its choice and its use is exchanged for another, MOST_PORTS tries in all.
3. No second process is started while anything lives of an earlier one.
4. Cancelling lets go of the process and leaves it, and its record, as they are.
"""

import asyncio
import logging
import os
from pathlib import Path
from typing import Self

from llmgw.agent import engine_log
from llmgw.agent.engine_process import EngineProcess
from llmgw.agent.fetching import bring
from llmgw.agent.home import Home
from llmgw.agent.output import tail
from llmgw.agent.preflight import Plan, look, obstacle, words
from llmgw.agent.processes import Identity, Mark, launch_name
from llmgw.agent.reckoning import HOW, reckoned
from llmgw.agent.records import Record
from llmgw.agent.room import wait_for_room
from llmgw.agent.running import End, Running
from llmgw.agent.scribe import Scribe
from llmgw.agent.standing import Standing, pending
from llmgw.core.fleet.shards import Phase, ShardSpec, ShardState
from llmgw.engines.engine import Launch
from llmgw.runtime.subprocess import clean_environment

log = logging.getLogger("llmgw.agent.shard")

TAIL_LINES = 50
CAUSE_LINES = 200
MOST_PORTS = 3
_NOBODY = Identity(pid=0, start_ticks=0, boot_id="")


class Shard:
    """One engine process. `run` alone moves it, `stop` and `drain` tell `run` what is wanted."""

    def __init__(self, spec: ShardSpec, home: Home, record: Record | None = None) -> None:
        """Take what is wanted; with the `record` of an engine that an earlier agent started, be where that is."""
        self.spec = spec
        self._home = home
        self._log = home.state_dir.log_of(spec.shard) if record is None else Path(record.log)
        self._standing = Standing(
            pending(spec, home) if record is None else record.state,
            home,
            None if record is None else record.since_now,
        )
        self._scribe = Scribe(spec, self._log, home)
        self._mark = Mark(state_dir=str(home.state_dir.path), launch=launch_name(spec.shard, spec.generation))
        self._told = asyncio.Event()
        self._because = ""
        self._timer: asyncio.TimerHandle | None = None
        self._adopted: tuple[EngineProcess, Plan] | None = None

    @classmethod
    def adopted(cls, record: Record, process: EngineProcess, home: Home) -> Self:
        """Take over an engine where its record says that it is; its kind is one that `home` knows."""
        shard = cls(record.spec, home, record)
        if record.state.phase == Phase.DRAINING:
            shard._because = record.state.reason or ""
            shard._standing.drain_ends_now = record.drain_ends_now
        plan = Plan(
            engine=home.engines[record.spec.profile.engine],
            launch=Launch(argv=(), health_path=record.health_path, stop_grace_s=record.stop_grace_s),
            host=record.state.host or "",
            port=record.state.port or 0,
            limit_s=record.limit_s,
        )
        home.ports.add(plan.port)
        shard._adopted = (process, plan)
        return shard

    @classmethod
    async def ended(cls, record: Record, why: str, home: Home) -> Self:
        """Make the failed shard of an engine that ended while nobody looked."""
        shard = cls(record.spec, home, record)
        await shard._failed(why, None)
        return shard

    @property
    def state(self) -> ShardState:
        """What was reported last."""
        return self._standing.state

    def report(self) -> None:
        """Report where it is, once more."""
        self._standing.report()

    def stop(self, because: str) -> None:
        """Ask for its end; a failed one ends here and now."""
        self._because = self._because or because
        self._told.set()
        if self.state.phase == Phase.FAILED:
            self._standing.enter(Phase.STOPPED, reason=self._because)

    def drain(self, deadline_s: float, because: str) -> None:
        """Ask for its end in `deadline_s` seconds, or at once when it serves nobody; `stop` ends it earlier."""
        if self.state.phase != Phase.READY:
            if self.state.phase != Phase.DRAINING:
                self.stop(because)
            return
        self._because = because
        self._standing.drain_ends_now = self._home.clock.now() + deadline_s
        self._standing.enter(Phase.DRAINING, reason=because)
        self._await_deadline()

    async def run(self, after: asyncio.Task[None] | None) -> None:
        """Live to the end; `after` is the earlier generation, which ends first."""
        try:
            if after is not None:
                await asyncio.wait([after])
            if self._adopted is None:
                await self._begun()
            else:
                await self._continued(*self._adopted)
        except Exception:  # the border of an owned task: one shard never takes the others along
            log.exception("shard %s: internal error", self.spec.shard)
            self._standing.enter(
                Phase.FAILED, reason=f"internal error on node {self._home.node}; its agent's log says more"
            )
        finally:
            if self._timer is not None:
                self._timer.cancel()

    # the launch

    async def _begun(self) -> None:
        for tries_left in reversed(range(MOST_PORTS)):
            plan = "" if self._told.is_set() else await self._looked()
            try:
                end = await self._tried(plan)
            finally:
                if isinstance(plan, Plan):
                    self._home.ports.discard(plan.port)
            if end is None or await self._is_over(end, tries_left):
                return

    async def _looked(self) -> Plan | str:
        """Look at what is needed and have the weights brought here; returns what stands in the way."""
        if problem := obstacle(self.spec, self._home):
            return problem
        weights = await bring(self.spec, self._home, self._standing, self._told)
        return weights if isinstance(weights, str) else await look(self.spec, self._home, weights)

    async def _tried(self, plan: Plan | str) -> End | None:
        """Launch what was planned and stay to its end; None when nothing was launched and all is said."""
        obstacle = plan if isinstance(plan, str) else await self._obstacle(plan)
        if self._told.is_set():
            self._standing.enter(Phase.STOPPED, reason=self._because)
        elif isinstance(plan, str) or obstacle is not None:
            self._standing.enter(Phase.FAILED, reason=obstacle)
        else:
            return await self._launched(plan)
        return None

    async def _obstacle(self, plan: Plan) -> str | None:
        """Wait for memory and take room for the record; returns what stands in the way of a launch."""
        spec = await reckoned(self.spec, plan.engine, plan.weights, plan.weights_bytes)
        if short := await wait_for_room(spec, self._home, self._told, self._standing.note):
            return f"node {self._home.node}: {short}" + ("" if spec is self.spec else f"; {HOW}")
        return None if self._told.is_set() else await asyncio.to_thread(self._prepared, plan)

    def _prepared(self, plan: Plan) -> str | None:
        if problem := self._scribe.earlier():
            return problem
        if problem := self._scribe.reserve(
            self._record(_NOBODY, plan, self._standing.starting(_NOBODY, plan))
        ):
            return problem
        # Another try for a port is the same run, and the run before it is worth more than the first try.
        if self.state.phase != Phase.STARTING:
            try:
                engine_log.begin(self._log)
            except OSError as error:
                self._scribe.forget()
                return self._scribe.trouble(error)
        return None

    async def _launched(self, plan: Plan) -> End | None:
        try:
            process, starting, problem = await asyncio.to_thread(self._spawn, plan)
        except (OSError, ValueError) as error:
            await self._scribe.forgotten()
            reason = f"{plan.launch.argv[0]} cannot be started on node {self._home.node}: {words(error)}"
            self._standing.enter(Phase.FAILED, reason=reason)
            return None
        if problem is None:
            self._standing.take(starting)
        return await self._running(process, plan).to_the_end(self._told, problem)

    def _spawn(self, plan: Plan) -> tuple[EngineProcess, ShardState, str | None]:
        """Start the process and write its record in one go, so that nothing comes between.

        Returns:
            The process, where the shard is with it, and why it must end at once, if so.
        """
        launch = plan.launch
        output = engine_log.open_for_engine(self._log)
        try:
            process = EngineProcess.spawn(
                launch.argv,
                env=clean_environment(os.environ, scrub=launch.scrub, add=launch.env),
                mark=self._mark,
                output=output,
                folder=self._home.state_dir.path,
            )
        finally:
            os.close(output)
        starting = self._standing.starting(process.identity, plan)
        return process, starting, self._scribe.write(self._record(process.identity, plan, starting))

    def _record(self, process: Identity, plan: Plan, starting: ShardState) -> Record:
        again = self.state.phase == Phase.STARTING
        since_now = self._standing.since_now if again else self._home.clock.now()
        return self._scribe.make(process, plan, starting, since_now=since_now)

    # the process and its end

    async def _continued(self, process: EngineProcess, plan: Plan) -> None:
        self._await_deadline()
        try:
            await self._is_over(await self._running(process, plan).to_the_end(self._told), 0)
        finally:
            self._home.ports.discard(plan.port)

    def _running(self, process: EngineProcess, plan: Plan) -> Running:
        return Running(
            process,
            plan,
            mark=self._mark,
            standing=self._standing,
            scribe=self._scribe,
            home=self._home,
        )

    async def _is_over(self, end: End, tries_left: int) -> bool:
        """Say how the process ended; False, and nothing said, when another port is to be tried."""
        if end.left is not None:
            self._standing.enter(Phase.FAILED, reason=end.left)
        elif self._told.is_set() or self._follows_its_head():
            self._standing.enter(Phase.STOPPED, reason=self._because, exit_status=end.status)
        elif end.taken is not None and tries_left:
            log.warning("shard %s: %s; trying another port", self.spec.shard, end.taken)
            return False
        else:
            tries = "" if end.taken is None else f"; {end.taken}, as was each of {MOST_PORTS} ports in turn"
            await self._failed(end.reason + tries, end.status)
        return True

    def _follows_its_head(self) -> bool:
        """Tell whether it was to end with rank 0 of its replica: then its end is what was wanted, however it came."""
        return self.spec.rank > 0 and self.state.phase == Phase.DRAINING

    async def _failed(self, reason: str, status: int | None) -> None:
        lines = await asyncio.to_thread(tail, self._log, CAUSE_LINES)
        engine = self._home.engines.get(self.spec.profile.engine)
        if engine is not None and (cause := engine.failure_cause(lines)):
            reason = f"{reason}: {cause}"
        crash = self._home.state_dir.crash_of(self.spec.shard)
        await asyncio.to_thread(engine_log.keep_crash, self._log, crash)
        self._standing.enter(Phase.FAILED, reason=reason, exit_status=status, tail=lines[-TAIL_LINES:])

    def _await_deadline(self) -> None:
        if (ends_now := self._standing.drain_ends_now) is not None:
            wait_s = max(0.0, ends_now - self._home.clock.now())
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._told.set)
