"""One engine process from its launch, or from its adoption, until nothing of it is left.

1. It is over when its leader has ended, when its watch gives it up, or when its shard is told to end.
2. However that comes, all that belongs to it is ended then, and only then is its record removed. What would not die
   keeps its record.
3. Every step is written down: readiness before it is said, so that an agent that is killed finds its engine as ready
   as the server does.
4. Cancelling lets go of the process and leaves it, and its record, as they are.
"""

import asyncio
import logging

import msgspec

from llmgw.agent.ends import MemoryKills, exit_words, read_memory_kills
from llmgw.agent.engine_log import forget_crash
from llmgw.agent.engine_process import EngineProcess
from llmgw.agent.home import Home
from llmgw.agent.listeners import is_strangers, listeners
from llmgw.agent.patience import call_within
from llmgw.agent.preflight import Plan
from llmgw.agent.processes import Mark
from llmgw.agent.records import Record
from llmgw.agent.scribe import Scribe
from llmgw.agent.standing import Standing
from llmgw.agent.watch import Watch
from llmgw.core.fleet.shards import Phase, ShardState

log = logging.getLogger("llmgw.agent.shard")

LOOK_LIMIT_S = 10.0


class End(msgspec.Struct, frozen=True, kw_only=True):
    """How a process ended.

    Attributes:
        reason: in words, unless its shard was told to end it.
        status: its exit status; None when nobody knows.
        left: what would not die, in words.
        taken: who has its port, in words, when it never got ready.
    """

    reason: str
    status: int | None = None
    left: str | None = None
    taken: str | None = None


class Running:
    """One process of a shard. `to_the_end` is awaited once; the other methods are for its watch."""

    def __init__(
        self,
        process: EngineProcess,
        plan: Plan,
        *,
        mark: Mark,
        standing: Standing,
        scribe: Scribe,
        home: Home,
    ) -> None:
        self._process = process
        self._plan = plan
        self._mark = mark
        self._standing = standing
        self._scribe = scribe
        self._home = home
        self._kills = MemoryKills(read_memory_kills(), home.clock.now())

    async def to_the_end(self, told: asyncio.Event, problem: str | None = None) -> End:
        """Stay with the process until it is over and end what is left of it.

        Args:
            told: set when it is to end.
            problem: why it must end at once.
        """
        try:
            why = problem or await self._until_over(told)
            status, left = await self._ended()
            taken = await self._taken()
        except Exception:
            # A fault of the agent's own must not leave an engine that nobody watches.
            await self._ended()
            raise
        finally:
            self._process.release()
        return End(reason=why or self._exit_words(status), status=status, left=left, taken=taken)

    async def _until_over(self, told: asyncio.Event) -> str | None:
        """Wait until the process is over, or is to be; returns why when it is the agent's own finding."""
        found = asyncio.create_task(Watch(self, self._plan, self._home).run())
        tasks = [
            found,
            asyncio.create_task(self._process.wait()),
            asyncio.create_task(told.wait()),
            asyncio.create_task(self._write_down()),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            return found.result() if found.done() else None
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _ended(self) -> tuple[int | None, str | None]:
        """End what is left; returns the exit status and, when something would not die, which."""
        try:
            status = await self._process.stop(self._plan.launch.stop_grace_s)
        except TimeoutError as error:
            log.error("shard %s: %s", self.state.shard, error)
            return None, f"{error}; what it holds on node {self._home.node} stays held"
        await self._scribe.forgotten()
        return status, None

    async def _taken(self) -> str | None:
        """Say who has the port of an engine that is gone and never got ready."""
        if self._standing.phase != Phase.STARTING:
            return None
        plan = self._plan
        try:
            pids = await call_within(LOOK_LIMIT_S, lambda: listeners(plan.port))
        except TimeoutError:
            return None
        names = ", ".join("unknown" if pid is None else str(pid) for pid in sorted(pids, key=str))
        return f"port {plan.port} on {plan.host} is taken by another process (pid {names})" if pids else None

    def _exit_words(self, status: int | None) -> str:
        return exit_words(
            self.state.engine or "the engine",
            self.state.phase,
            status,
            adopted=not self._process.is_child,
            kills=self._kills.lately(read_memory_kills()),
        )

    # its record

    async def _write_down(self) -> None:
        """Bring the record up to date after every step, for ever."""
        while True:
            await self._standing.changed.wait()
            self._standing.changed.clear()
            await self._scribe.change(self._record(self.state, self.since_now))

    def _record(self, state: ShardState, since_now: float) -> Record:
        return self._scribe.make(
            self._process.identity,
            self._plan,
            state,
            since_now=since_now,
            drain_ends_now=self._standing.drain_ends_now,
        )

    # what its watch finds

    @property
    def state(self) -> ShardState:
        """What was reported last."""
        return self._standing.state

    @property
    def since_now(self) -> float:
        """When its phase began, monotonic seconds."""
        return self._standing.since_now

    async def answered(self) -> str | None:
        """Take the first healthy answer; returns why it does not count, if so."""
        port = self._plan.port
        if await self._strangers_answer(port):
            return f"another process answers on port {port} in its place"
        ready = self._standing.after(Phase.READY)
        await self._scribe.change(self._record(ready, self._home.clock.now()))
        self._standing.take(ready)
        return None

    async def _strangers_answer(self, port: int) -> bool:
        leader, mark = self._process.identity, self._mark
        try:
            return await call_within(LOOK_LIMIT_S, lambda: is_strangers(port, leader, mark))
        except TimeoutError:
            return False

    def asked(self) -> None:
        """Take that the engine is asked once more."""
        self._kills.note(read_memory_kills(), self._home.clock.now())

    def noted(self, reason: str | None) -> None:
        """Take that a ready engine does not answer, or with None that it does again."""
        log.warning("shard %s: %s", self.state.shard, reason or "answers again")
        if self._standing.phase == Phase.READY:
            self._standing.note(reason)

    def proven(self) -> None:
        """Take that the engine has been ready for long: its earlier crashes are over."""
        forget_crash(self._home.state_dir.crash_of(self.state.shard))
