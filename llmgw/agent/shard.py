"""The life of one engine process, from pending to its end, and the report of every step.

    pending -> starting -> ready -> (draining ->) stopped
         \\-------\\---------\\------------------> failed

1. Nothing is launched before the profile, the engine, the weights and a port have been looked at; a refusal is a
   failed shard that says what is wrong.
2. Starting ends with a healthy answer, with the process or with the deadline, which nothing moves.
3. However the process ends, all of its session is gone, and only then is its record removed and the end reported.
4. A ready engine that stops answering says so in its reason, and is failed after HUNG_AFTER_S: it may be busy.
5. Cancelling lets go of the process and leaves it, and its record, as they are.
"""

import asyncio
import logging
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from llmgw.agent.discovery.route import free_port
from llmgw.agent.health import ask
from llmgw.agent.output import tail
from llmgw.agent.patience import call_within
from llmgw.agent.processes import MARK, EngineProcess, signal_name
from llmgw.agent.records import Record, Records
from llmgw.agent.state_dir import StateDir
from llmgw.core.errors import BadInput
from llmgw.core.fleet.hardware import EngineInstall
from llmgw.core.fleet.shards import Phase, ShardSpec, ShardState, may_follow
from llmgw.core.fleet.weights import LocalFile, read_source
from llmgw.core.units import GIB, show_seconds
from llmgw.engines.engine import Engine, Launch, Readiness
from llmgw.runtime.clock import Clock
from llmgw.runtime.subprocess import clean_environment

log = logging.getLogger("llmgw.agent.shard")

TAIL_LINES = 50
CAUSE_LINES = 200
STAT_LIMIT_S = 10.0
_PART = re.compile(r"-\d{5}-of-(\d{5})\.gguf\Z")


class Timings(msgspec.Struct, frozen=True, kw_only=True):
    """How long things may take, in seconds.

    Attributes:
        poll_starting_s: between two looks at an engine that is starting.
        poll_ready_s: between two looks at one that is ready.
        answer_s: for one answer.
        start_s: from `starting` to `ready`, for any engine.
        start_per_gib_s: beside that, for each GiB of weights.
        silent_after_s: a ready engine that has not answered for so long says so.
        hung_after_s: after this long it is failed.
    """

    poll_starting_s: float = 0.25
    poll_ready_s: float = 1.0
    answer_s: float = 5.0
    start_s: float = 300.0
    start_per_gib_s: float = 20.0
    silent_after_s: float = 10.0
    hung_after_s: float = 300.0

    def starting_limit_s(self, weights_bytes: int) -> float:
        """Say how long an engine with so much to load may take to become ready."""
        return self.start_s + self.start_per_gib_s * weights_bytes / GIB


class Home(msgspec.Struct, frozen=True, kw_only=True):
    """What all shards of one agent share.

    Attributes:
        installs: gives the engines of this node as last seen.
        address: gives the address engines listen on.
        report: takes every transition.
        ports: ports that shards have been given, each removed by the shard that added it.
    """

    node: str
    state_dir: StateDir
    records: Records
    engines: Mapping[str, Engine]
    installs: Callable[[], tuple[EngineInstall, ...]]
    address: Callable[[], str]
    report: Callable[[ShardState], None]
    clock: Clock
    timings: Timings = Timings()
    ports: set[int] = set()


class _Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A launch that has been looked at."""

    engine: Engine
    launch: Launch
    host: str
    port: int
    limit_s: float


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
        plan = None if self._told.is_set() else await self._plan()
        if self._told.is_set():
            self._enter(Phase.STOPPED, reason=self._because)
        elif isinstance(plan, _Plan):
            try:
                await self._launched(plan)
            finally:
                self._home.ports.discard(plan.port)
        else:
            self._enter(Phase.FAILED, reason=plan)

    # looking first

    async def _plan(self) -> _Plan | str:
        """Look at all that is needed; returns what is wrong when something is."""
        profile, node = self.spec.profile, self._home.node
        engine = self._home.engines.get(profile.engine)
        install = _usable(profile.engine, self._home.installs(), node)
        if isinstance(install, str):
            return install
        if engine is None:
            return f"the agent on node {node} knows no engine {profile.engine!r}; update it"
        if problem := engine.profile_problem(profile):
            return problem
        source = read_source(profile.weights)
        if not isinstance(source, LocalFile):
            return source
        weights_bytes = await _weights(source.path, node)
        if isinstance(weights_bytes, str):
            return weights_bytes
        host = self._home.address()
        port = await self._port(host)
        if isinstance(port, str):
            return port
        try:
            launch = engine.launch(
                install, profile, model=self.spec.model, weights=source.path, host=host, port=port
            )
        except BadInput as error:
            self._home.ports.discard(port)
            return str(error)
        limit_s = self._home.timings.starting_limit_s(weights_bytes)
        return _Plan(engine=engine, launch=launch, host=host, port=port, limit_s=limit_s)

    async def _port(self, host: str) -> int | str:
        taken = self._home.ports
        try:
            port = await call_within(STAT_LIMIT_S, lambda: free_port(host, taken))
            while port in taken:
                port = await call_within(STAT_LIMIT_S, lambda: free_port(host, taken))
        except (OSError, ValueError) as error:
            return (
                f"no engine can listen on {host}, the address of node {self._home.node}: {_words(error)}; "
                "correct `address` in its agent.yaml"
            )
        taken.add(port)
        return port

    # the process

    async def _launched(self, plan: _Plan) -> None:
        try:
            process, problem = await asyncio.to_thread(self._spawn, plan.launch)
        except (OSError, ValueError) as error:
            program = plan.launch.argv[0]
            self._enter(
                Phase.FAILED, reason=f"{program} cannot be started on node {self._home.node}: {_words(error)}"
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
            return process, f"its record cannot be written to {home.state_dir.records}: {_words(error)}"
        return process, None

    async def _followed(self, process: EngineProcess, plan: _Plan) -> str | None:
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

    async def _failed(self, plan: _Plan, why: str | None, status: int | None) -> None:
        path = self._home.state_dir.log_of(self.spec.shard)
        lines = await asyncio.to_thread(tail, path, CAUSE_LINES)
        reason = why or _exit_words(self.spec.profile.engine, self.state.phase, status)
        if cause := plan.engine.failure_cause(lines):
            reason = f"{reason}: {cause}"
        self._enter(Phase.FAILED, reason=reason, exit_status=status, tail=lines[-TAIL_LINES:])

    async def _until_end(self, process: EngineProcess, plan: _Plan) -> str | None:
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

    async def _watch(self, plan: _Plan) -> str:
        """Poll the engine's health; returns in words why it must be given up."""
        if why := await self._watch_start(plan):
            return why
        self._enter(Phase.READY)
        return await self._watch_ready(plan)

    async def _watch_start(self, plan: _Plan) -> str | None:
        clock, timings = self._home.clock, self._home.timings
        deadline = clock.now() + plan.limit_s
        while True:
            heard = await self._heard(plan)
            if heard == Readiness.READY:
                return None
            if clock.now() >= deadline:
                return f"not ready within {show_seconds(plan.limit_s)} (it {_said(heard)})"
            await asyncio.sleep(timings.poll_starting_s)

    async def _watch_ready(self, plan: _Plan) -> str:
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

    async def _heard(self, plan: _Plan) -> Readiness | None:
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


def _usable(engine: str, installs: tuple[EngineInstall, ...], node: str) -> EngineInstall | str:
    of_name = [install for install in installs if install.engine == engine]
    for install in of_name:
        if install.problem is None:
            return install
    if of_name:
        return f"engine {engine!r} does not run on node {node}: {of_name[0].problem}"
    return f"engine {engine!r} is not on node {node}; name it under `engines` in its agent.yaml"


async def _weights(path: str, node: str) -> int | str:
    """Look at a weights file: how many bytes it and its parts have, about; or what is wrong with it."""
    try:
        size = await call_within(STAT_LIMIT_S, lambda: _readable_bytes(Path(path)))
    except (FileNotFoundError, NotADirectoryError):
        return f"weights file {path} is not on node {node}"
    except TimeoutError:
        return f"weights file {path}: its filesystem on node {node} did not answer within {STAT_LIMIT_S:g} s"
    except (OSError, ValueError) as error:
        return f"weights file {path} cannot be read on node {node}: {_words(error)}"
    parts = _PART.search(path)
    return size * int(parts[1]) if parts else size


def _readable_bytes(path: Path) -> int:
    with path.open("rb") as file:
        return os.fstat(file.fileno()).st_size


def _words(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


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
