"""The life of one engine process, from pending to its end, and the report of every step.

    pending -> starting -> ready -> (draining ->) stopped
         \\-------\\---------\\------------------> failed

1. Nothing is launched before the profile, the engine, the weights and a port have been looked at; a refusal is a
   failed shard that says what is wrong.
2. Starting ends with a healthy answer, with the process or with the deadline, which nothing moves.
3. However the process ends, all of its session is gone, and only then is its record removed and the end reported.
4. A ready engine that stops answering says so in its reason, and is failed when that lasts (Timings): it may be busy.
5. Cancelling lets go of the process and leaves it, and its record, as they are.
"""

import asyncio
import logging
import os

import msgspec

from llmgw.agent.health import ask
from llmgw.agent.home import Home
from llmgw.agent.output import tail
from llmgw.agent.preflight import Plan, look, words
from llmgw.agent.processes import MARK, EngineProcess, signal_name
from llmgw.agent.records import Record
from llmgw.core.fleet.shards import Phase, ShardSpec, ShardState, may_follow
from llmgw.core.units import show_seconds
from llmgw.engines.engine import Launch, Readiness
from llmgw.runtime.subprocess import clean_environment

log = logging.getLogger("llmgw.agent.shard")

TAIL_LINES = 50
CAUSE_LINES = 200


class Shard:
    """One engine process. `run` alone moves it, `stop` and `drain` tell `run` what is wanted."""

    def __init__(self, spec: ShardSpec, home: Home) -> None:
        self.spec = spec
        self._home = home
        self._told = asyncio.Event()
        self._because = ""
        self._timer: asyncio.TimerHandle | None = None
        self.state = ShardState(
            shard=spec.shard,
            replica=spec.replica,
            model=spec.model,
            ordinal=spec.ordinal,
            rank=spec.rank,
            generation=spec.generation,
            phase=Phase.PENDING,
            fingerprint=spec.fingerprint,
            profile=spec.profile.name,
            engine=spec.profile.engine,
            since_s=home.clock.at().timestamp(),
            min_memory_gb=spec.profile.min_memory_gb,
        )

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
        self._enter(Phase.DRAINING, reason=because)
        self._timer = asyncio.get_running_loop().call_later(deadline_s, self._told.set)

    async def run(self, after: asyncio.Task[None] | None) -> None:
        """Live from pending to the end; `after` is the earlier generation, which ends first."""
        try:
            if after is not None:
                await asyncio.wait([after])
            await self._live()
        except Exception:  # the border of an owned task: one shard never takes the others along
            log.exception("shard %s: internal error", self.spec.shard)
            self._enter(
                Phase.FAILED, reason=f"internal error on node {self._home.node}; its agent's log says more"
            )
        finally:
            if self._timer is not None:
                self._timer.cancel()

    async def _live(self) -> None:
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

    # the process

    async def _launched(self, plan: Plan) -> None:
        try:
            process, problem = await asyncio.to_thread(self._spawn, plan.launch)
        except (OSError, ValueError) as error:
            program = plan.launch.argv[0]
            self._enter(
                Phase.FAILED, reason=f"{program} cannot be started on node {self._home.node}: {words(error)}"
            )
            return
        try:
            why = problem or await self._followed(process, plan)
            status = await self._ended(process, plan.launch.stop_grace_s)
        except Exception:
            # A fault of the agent's own must not leave an engine that nobody watches.
            await self._ended(process, plan.launch.stop_grace_s)
            raise
        finally:
            process.release()
        if self._told.is_set():
            self._enter(Phase.STOPPED, reason=self._because, exit_status=status)
        else:
            await self._failed(plan, why, status)

    def _spawn(self, launch: Launch) -> tuple[EngineProcess, str | None]:
        """Start the process and write its record in one go, so that nothing comes between; or say why it must end."""
        home = self._home
        add = {**launch.env, MARK: str(home.state_dir.path)}
        process = EngineProcess.spawn(
            launch.argv,
            env=clean_environment(os.environ, scrub=launch.scrub, add=add),
            log=home.state_dir.log_of(self.spec.shard),
            folder=home.state_dir.path,
        )
        record = Record(shard=self.spec.shard, generation=self.spec.generation, process=process.identity)
        try:
            home.records.write(record)
        except OSError as error:
            return process, f"its record cannot be written to {home.state_dir.records}: {words(error)}"
        return process, None

    async def _followed(self, process: EngineProcess, plan: Plan) -> str | None:
        self._enter(Phase.STARTING, host=plan.host, port=plan.port, pid=process.identity.pid)
        return await self._until_end(process, plan)

    async def _ended(self, process: EngineProcess, grace_s: float) -> int | None:
        try:
            status = await process.stop(grace_s)
        except TimeoutError as error:
            # Its record stays, so that the next agent tries again.
            log.error("shard %s: %s", self.spec.shard, error)
            return None
        await asyncio.to_thread(self._home.records.remove, self.spec.shard)
        return status

    async def _failed(self, plan: Plan, why: str | None, status: int | None) -> None:
        path = self._home.state_dir.log_of(self.spec.shard)
        lines = await asyncio.to_thread(tail, path, CAUSE_LINES)
        reason = why or _exit_words(self.spec.profile.engine, self.state.phase, status)
        if cause := plan.engine.failure_cause(lines):
            reason = f"{reason}: {cause}"
        self._enter(Phase.FAILED, reason=reason, exit_status=status, tail=lines[-TAIL_LINES:])

    async def _until_end(self, process: EngineProcess, plan: Plan) -> str | None:
        """Wait until the process is over, or is to be; returns why when it is the agent's own finding."""
        found = asyncio.create_task(self._watch(plan))
        tasks = [found, asyncio.create_task(process.wait()), asyncio.create_task(self._told.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            return found.result() if found.done() else None
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _watch(self, plan: Plan) -> str:
        """Poll the engine's health; returns in words why it must be given up."""
        if why := await self._watch_start(plan):
            return why
        self._enter(Phase.READY)
        return await self._watch_ready(plan)

    async def _watch_start(self, plan: Plan) -> str | None:
        clock, timings = self._home.clock, self._home.timings
        deadline = clock.now() + plan.limit_s
        while True:
            heard = await self._heard(plan)
            if heard == Readiness.READY:
                return None
            if clock.now() >= deadline:
                return f"not ready within {show_seconds(plan.limit_s)} (it {_said(heard)})"
            await asyncio.sleep(timings.poll_starting_s)

    async def _watch_ready(self, plan: Plan) -> str:
        clock, timings = self._home.clock, self._home.timings
        heard_now, silent = clock.now(), False
        while True:
            await asyncio.sleep(timings.poll_ready_s)
            heard = await self._heard(plan)
            if heard == Readiness.READY:
                heard_now = clock.now()
            for_s = clock.now() - heard_now
            if for_s >= timings.hung_after_s:
                return f"unhealthy for {show_seconds(for_s)} (it {_said(heard)})"
            if (for_s >= timings.silent_after_s) != silent:
                silent = not silent
                self._note(
                    f"no healthy answer for {show_seconds(for_s)} (it {_said(heard)})" if silent else None
                )

    async def _heard(self, plan: Plan) -> Readiness | None:
        """Ask once; None means that nothing answered."""
        path, within_s = plan.launch.health_path, self._home.timings.answer_s
        status, body = await ask(plan.host, plan.port, path, within_s=within_s)
        readiness = plan.engine.readiness(status, body)
        return None if status is None and readiness != Readiness.READY else readiness

    # saying so

    def _enter(self, phase: Phase, **changes: object) -> None:
        if not may_follow(self.state.phase, phase):
            log.error("shard %s: %s cannot follow %s", self.spec.shard, phase, self.state.phase)
            return
        kept = {"reason": None} | changes
        since_s = self._home.clock.at().timestamp()
        self.state = msgspec.structs.replace(self.state, phase=phase, since_s=since_s, **kept)
        log.info(
            "shard %s (%s): %s%s",
            self.spec.shard,
            self.spec.generation,
            phase,
            f": {self.state.reason}" if self.state.reason else "",
        )
        self.report()

    def _note(self, reason: str | None) -> None:
        self.state = msgspec.structs.replace(self.state, reason=reason)
        log.warning("shard %s: %s", self.spec.shard, reason or "answers again")
        self.report()


def _said(heard: Readiness | None) -> str:
    if heard is None:
        return "does not answer"
    return "says that it is loading" if heard == Readiness.LOADING else "answers that something is broken"


def _exit_words(engine: str, phase: Phase, status: int | None) -> str:
    when = "while starting" if phase == Phase.STARTING else f"while {phase.value}"
    if status is None:
        return f"{engine} ended {when}"
    if status >= 0:
        return f"{engine} ended with status {status} {when}"
    memory = ", which the kernel sends when memory runs out" if status == -9 else ""
    return f"{engine} was ended by {signal_name(-status)}{memory} {when}"
