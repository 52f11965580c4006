"""The life of one engine process, from pending or from its adoption to its end, and the report of every step.

    pending -> starting -> ready -> (draining ->) stopped
         \\-------\\---------\\------------------> failed

1. Nothing is launched before the profile, the engine, the weights and a port have been looked at, and before there is
   room for its record; a refusal is a failed shard that says what is wrong.
2. However the process ends, all that belongs to it is gone, and only then is its record removed and the end reported.
   What would not die keeps its record, and its shard is not started beside it.
3. Every step is written down, so that the next agent takes over where this one was.
4. Cancelling lets go of the process and leaves it, and its record, as they are.
"""

import asyncio
import logging
import os
from pathlib import Path
from typing import Self

import msgspec

from llmgw.agent import engine_log
from llmgw.agent.engine_process import EngineProcess
from llmgw.agent.home import Home
from llmgw.agent.output import tail
from llmgw.agent.patience import call_within
from llmgw.agent.preflight import Plan, look, words
from llmgw.agent.processes import Identity, Mark, launch_name, session_of, signal_name
from llmgw.agent.records import Record
from llmgw.agent.watch import Watch
from llmgw.core.fleet.shards import Phase, ShardSpec, ShardState, may_follow
from llmgw.engines.engine import Launch
from llmgw.runtime.subprocess import clean_environment

log = logging.getLogger("llmgw.agent.shard")

TAIL_LINES = 50
CAUSE_LINES = 200
WRITE_LIMIT_S = 10.0
_NOBODY = Identity(pid=0, start_ticks=0, boot_id="")


class Shard:
    """One engine process. `run` alone moves it, `stop` and `drain` tell `run` what is wanted."""

    def __init__(self, spec: ShardSpec, home: Home) -> None:
        self.spec = spec
        self.since_now = home.clock.now()
        self._home = home
        self._told = asyncio.Event()
        self._changed = asyncio.Event()
        self._because = ""
        self._drain_ends_now: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._process: EngineProcess | None = None
        self._plan: Plan | None = None
        self._log = home.state_dir.log_of(spec.shard)
        self.state = _pending(spec, home)

    @classmethod
    def adopted(cls, record: Record, process: EngineProcess, home: Home) -> Self:
        """Take over an engine where its record says that it is; its kind is one that `home` knows."""
        shard = cls(record.spec, home)
        shard.state = record.state
        shard.since_now = min(record.since_now, shard.since_now)
        shard._drain_ends_now = record.drain_ends_now
        shard._because = record.state.reason or "" if record.state.phase == Phase.DRAINING else ""
        shard._log = Path(record.log)
        shard._process = process
        shard._plan = Plan(
            engine=home.engines[record.spec.profile.engine],
            launch=Launch(argv=(), health_path=record.health_path, stop_grace_s=record.stop_grace_s),
            host=record.state.host or "",
            port=record.state.port or 0,
            limit_s=record.limit_s,
        )
        home.ports.add(shard._plan.port)
        return shard

    @classmethod
    async def ended(cls, record: Record, why: str, home: Home) -> Self:
        """Make the failed shard of an engine that ended while nobody looked."""
        shard = cls(record.spec, home)
        shard._log = Path(record.log)
        shard.state = record.state
        await shard._failed(why, None)
        return shard

    def report(self) -> None:
        """Report where it is, once more."""
        self._home.report(self.state)

    def stop(self, because: str) -> None:
        """Ask for its end; a failed one ends here and now."""
        self._because = self._because or because
        self._told.set()
        if self.state.phase == Phase.FAILED:
            self._enter(Phase.STOPPED, reason=self._because)

    def drain(self, deadline_s: float, because: str) -> None:
        """Ask for its end in `deadline_s` seconds, or at once when it serves nobody; `stop` ends it earlier."""
        if self.state.phase != Phase.READY:
            if self.state.phase != Phase.DRAINING:
                self.stop(because)
            return
        self._because = because
        self._drain_ends_now = self._home.clock.now() + deadline_s
        self._enter(Phase.DRAINING, reason=because)
        self._await_deadline(self._drain_ends_now)

    async def run(self, after: asyncio.Task[None] | None) -> None:
        """Live to the end; `after` is the earlier generation, which ends first."""
        try:
            if after is not None:
                await asyncio.wait([after])
            if self._process is not None and self._plan is not None:
                await self._continued(self._process, self._plan)
            else:
                await self._begun()
        except Exception:  # the border of an owned task: one shard never takes the others along
            log.exception("shard %s: internal error", self.spec.shard)
            self._enter(
                Phase.FAILED, reason=f"internal error on node {self._home.node}; its agent's log says more"
            )
        finally:
            if self._timer is not None:
                self._timer.cancel()

    # the process

    async def _begun(self) -> None:
        plan = "" if self._told.is_set() else await look(self.spec, self._home)
        try:
            if self._told.is_set():
                self._enter(Phase.STOPPED, reason=self._because)
            elif isinstance(plan, Plan):
                await self._launched(plan)
            else:
                self._enter(Phase.FAILED, reason=plan)
        finally:
            if isinstance(plan, Plan):
                self._home.ports.discard(plan.port)

    async def _launched(self, plan: Plan) -> None:
        if problem := await asyncio.to_thread(self._prepared, plan):
            self._enter(Phase.FAILED, reason=problem)
            return
        try:
            process, starting, problem = await asyncio.to_thread(self._spawn, plan)
        except (OSError, ValueError) as error:
            await asyncio.to_thread(self._home.records.remove, self.spec.shard)
            program = plan.launch.argv[0]
            self._enter(
                Phase.FAILED, reason=f"{program} cannot be started on node {self._home.node}: {words(error)}"
            )
            return
        self._process, self._plan = process, plan
        if problem is None:
            self._take(starting)
        await self._to_the_end(process, plan, problem)

    async def _continued(self, process: EngineProcess, plan: Plan) -> None:
        if self._drain_ends_now is not None:
            self._await_deadline(self._drain_ends_now)
        try:
            await self._to_the_end(process, plan, None)
        finally:
            self._home.ports.discard(plan.port)

    def _prepared(self, plan: Plan) -> str | None:
        """Make sure that an engine may be launched and can be written down; returns why not."""
        holder = self._home.records.holder(self.spec.shard)
        if holder is not None and (left := session_of(holder)):
            pids = ", ".join(str(stat.pid) for stat in left)
            return (
                f"pid {pids} of an earlier run of {self.spec.shard} on node {self._home.node} would not die"
            )
        try:
            self._home.records.reserve(self._record(_NOBODY, plan, self._starting(_NOBODY, plan)))
            engine_log.begin(self._log)
        except OSError as error:
            self._home.records.remove(self.spec.shard)
            return f"its record cannot be written to {self._home.records.folder}: {words(error)}"
        return None

    def _spawn(self, plan: Plan) -> tuple[EngineProcess, ShardState, str | None]:
        """Start the process and write its record in one go, so that nothing comes between.

        Returns:
            The process, where the shard is with it, and why it must end at once, if so.
        """
        home, launch = self._home, plan.launch
        output = engine_log.open_for_engine(self._log)
        try:
            process = EngineProcess.spawn(
                launch.argv,
                env=clean_environment(os.environ, scrub=launch.scrub, add=launch.env),
                mark=Mark(
                    state_dir=str(home.state_dir.path),
                    launch=launch_name(self.spec.shard, self.spec.generation),
                ),
                output=output,
                folder=home.state_dir.path,
            )
        finally:
            os.close(output)
        starting = self._starting(process.identity, plan)
        try:
            home.records.write(self._record(process.identity, plan, starting))
        except OSError as error:
            problem = f"its record cannot be written to {home.records.folder}: {words(error)}"
            return process, starting, problem
        return process, starting, None

    def _record(self, process: Identity, plan: Plan, state: ShardState) -> Record:
        return Record(
            shard=self.spec.shard,
            generation=self.spec.generation,
            process=process,
            spec=self.spec,
            state=state,
            log=str(self._log),
            since_now=self.since_now if state.phase == self.state.phase else self._home.clock.now(),
            health_path=plan.launch.health_path,
            limit_s=plan.limit_s,
            stop_grace_s=plan.launch.stop_grace_s,
            drain_ends_now=self._drain_ends_now,
        )

    async def _to_the_end(self, process: EngineProcess, plan: Plan, problem: str | None) -> None:
        """Stay with a process until it is over, end what is left of it and say how it ended."""
        try:
            why = problem or await self._until_end(process, plan)
            status, left = await self._ended(process, plan)
        except Exception:
            # A fault of the agent's own must not leave an engine that nobody watches.
            await self._ended(process, plan)
            raise
        finally:
            process.release()
        if left is not None:
            self._enter(Phase.FAILED, reason=left)
        elif self._told.is_set():
            self._enter(Phase.STOPPED, reason=self._because, exit_status=status)
        else:
            await self._failed(why or self._exit_words(process, status), status)

    async def _ended(self, process: EngineProcess, plan: Plan) -> tuple[int | None, str | None]:
        """End what is left; returns the exit status and, when something would not die, which."""
        try:
            status = await process.stop(plan.launch.stop_grace_s)
        except TimeoutError as error:
            # Its record stays, so that the next agent tries again.
            log.error("shard %s: %s", self.spec.shard, error)
            return None, f"{error}; what it holds on node {self._home.node} stays held"
        await asyncio.to_thread(self._home.records.remove, self.spec.shard)
        return status, None

    async def _failed(self, reason: str, status: int | None) -> None:
        lines = await asyncio.to_thread(tail, self._log, CAUSE_LINES)
        engine = self._home.engines.get(self.spec.profile.engine)
        if engine is not None and (cause := engine.failure_cause(lines)):
            reason = f"{reason}: {cause}"
        crash = self._home.state_dir.crash_of(self.spec.shard)
        await asyncio.to_thread(engine_log.keep_crash, self._log, crash)
        self._enter(Phase.FAILED, reason=reason, exit_status=status, tail=lines[-TAIL_LINES:])

    async def _until_end(self, process: EngineProcess, plan: Plan) -> str | None:
        """Wait until the process is over, or is to be; returns why when it is the agent's own finding."""
        found = asyncio.create_task(Watch(self, plan, self._home).run())
        tasks = [
            found,
            asyncio.create_task(process.wait()),
            asyncio.create_task(self._told.wait()),
            asyncio.create_task(self._write_down(process, plan)),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            return found.result() if found.done() else None
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _write_down(self, process: EngineProcess, plan: Plan) -> None:
        """Bring the record up to date after every step, for ever; what cannot be written is news for the log only."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            await self._write(self._record(process.identity, plan, self.state))

    async def _write(self, record: Record) -> None:
        try:
            await call_within(WRITE_LIMIT_S, lambda: self._home.records.change(record))
        except OSError as error:
            log.error(
                "shard %s goes on, but its record in %s still says what it did before: %s",
                self.spec.shard,
                self._home.records.folder,
                words(error) or "the filesystem does not answer",
            )

    # what the watch finds

    async def answered(self) -> str | None:
        """Take the first healthy answer; returns why it does not count, if so."""
        ready = self._after(Phase.READY)
        if self._process is not None and self._plan is not None:
            # Written before it is said: an agent that is killed now finds its engine ready, as the server does.
            await self._write(self._record(self._process.identity, self._plan, ready))
        self._take(ready)
        return None

    def noted(self, reason: str | None) -> None:
        """Take that a ready engine does not answer, or with None that it does again."""
        log.warning("shard %s: %s", self.spec.shard, reason or "answers again")
        if self.state.phase == Phase.READY:
            self.state = msgspec.structs.replace(self.state, reason=reason)
            self.report()

    def proven(self) -> None:
        """Take that the engine has been ready for long: its earlier crashes are over."""
        engine_log.forget_crash(self._home.state_dir.crash_of(self.spec.shard))

    # saying so

    def _await_deadline(self, ends_now: float) -> None:
        wait_s = max(0.0, ends_now - self._home.clock.now())
        self._timer = asyncio.get_running_loop().call_later(wait_s, self._told.set)

    def _starting(self, process: Identity, plan: Plan) -> ShardState:
        return self._after(Phase.STARTING, host=plan.host, port=plan.port, pid=process.pid)

    def _after(self, phase: Phase, **changes: object) -> ShardState:
        since_s = self._home.clock.at().timestamp()
        return msgspec.structs.replace(
            self.state, phase=phase, since_s=since_s, **({"reason": None} | changes)
        )

    def _enter(self, phase: Phase, **changes: object) -> None:
        self._take(self._after(phase, **changes))
        self._changed.set()

    def _take(self, state: ShardState) -> None:
        if not may_follow(self.state.phase, state.phase):
            log.error("shard %s: %s cannot follow %s", self.spec.shard, state.phase, self.state.phase)
            return
        self.state = state
        self.since_now = self._home.clock.now()
        log.info(
            "shard %s (%s): %s%s",
            self.spec.shard,
            self.spec.generation,
            state.phase,
            f": {self.state.reason}" if self.state.reason else "",
        )
        self.report()

    def _exit_words(self, process: EngineProcess, status: int | None) -> str:
        engine, phase = self.spec.profile.engine, self.state.phase
        when = "while starting" if phase == Phase.STARTING else f"while {phase.value}"
        if status is None:
            how = "" if process.is_child else " (status unknown: it was adopted)"
            return f"{engine} ended{how} {when}"
        if status >= 0:
            return f"{engine} ended with status {status} {when}"
        memory = ", which the kernel sends when memory runs out" if status == -9 else ""
        return f"{engine} was ended by {signal_name(-status)}{memory} {when}"


def _pending(spec: ShardSpec, home: Home) -> ShardState:
    profile = spec.profile
    engine = home.engines.get(profile.engine)
    return ShardState(
        shard=spec.shard,
        replica=spec.replica,
        model=spec.model,
        ordinal=spec.ordinal,
        rank=spec.rank,
        generation=spec.generation,
        phase=Phase.PENDING,
        fingerprint=spec.fingerprint,
        profile=profile.name,
        engine=profile.engine,
        since_s=home.clock.at().timestamp(),
        min_memory_gb=profile.min_memory_gb,
        tasks=None if engine is None else engine.tasks(profile),
        capacity=None if engine is None else engine.capacity(profile),
    )
