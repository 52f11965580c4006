"""The one owner of all shards of this node: which there are, which generation of each, and who is stopped for whom.

Rules:

1. Start and stop are idempotent by (shard, generation): the same start again only reports where the shard is.
2. A later generation replaces an earlier one, which ends first; an earlier one is refused.
3. A stop meets its generation and all before it, and what was stopped is forgotten: the link keeps the order of
   commands and never repeats an old start.
4. What an earlier agent left behind is adopted before anything is started, and before the server hears of this node.
"""

import asyncio
import logging
import math

from llmgw.agent.adoption import Kept, take_stock
from llmgw.agent.engine_log import keep_trimming
from llmgw.agent.home import Home
from llmgw.agent.shard import Shard
from llmgw.core.fleet.shards import Phase, ShardSpec, ShardState
from llmgw.core.ids import Generation

log = logging.getLogger("llmgw.agent.supervisor")

MOST_SHARDS = 4096
MOST_DRAIN_S = 24 * 3600.0
_LONGEST_ID = 256


class Supervisor:
    """Owner of the shards. All of it runs in one loop, without locks; `run` must run for `start` to work."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._shards: dict[str, Shard] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None
        self._kept: dict[str, Kept] = {}
        self._running = asyncio.Event()
        self._ending = False

    def shards(self) -> tuple[ShardState, ...]:
        """List every shard, failed ones included until they are told to stop."""
        return tuple(shard.state for shard in self._shards.values())

    def specs(self) -> tuple[tuple[ShardSpec, ShardState], ...]:
        """List every shard with what was asked for."""
        return tuple((shard.spec, shard.state) for shard in self._shards.values())

    async def run(self) -> None:
        """Own the shards' tasks. Cancelling leaves the engines running."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            group.create_task(keep_trimming(self._home.state_dir.logs, self._home.timings.trim_s))
            self._running.set()
            try:
                await asyncio.Event().wait()
            finally:
                self._group = None

    def start(self, spec: ShardSpec) -> str | None:
        """Start a shard, or replace an earlier generation of it; returns why not when it is refused."""
        known = self._shards.get(spec.shard)
        if known is not None and known.spec.generation == spec.generation:
            known.report()
            return None
        if refusal := self._refusal(spec, known):
            return refusal
        if known is not None:
            known.stop(f"generation {spec.generation} replaces it")
        shard = Shard(spec, self._home)
        shard.report()
        self._own(shard)
        return None

    def stop(self, shard_id: str, generation: Generation, because: str) -> None:
        """Stop a shard of this generation or an earlier one and forget it; one that is not there is fine."""
        shard = self._shards.get(shard_id)
        if shard is not None and shard.spec.generation <= generation:
            shard.stop(because or "it is no longer wanted")
            self._forget(shard)

    def drain(self, shard_id: str, generation: Generation, deadline_s: float, because: str) -> None:
        """Let a shard of this generation or an earlier one finish for at most `deadline_s` seconds, then stop it.

        What is in flight is known to the router, not here: the shard ends with its deadline or with a stop.
        """
        shard = self._shards.get(shard_id)
        if shard is not None and shard.spec.generation <= generation:
            within_s = 0.0 if math.isnan(deadline_s) else min(max(0.0, deadline_s), MOST_DRAIN_S)
            shard.drain(within_s, because or "it is to be stopped")
            self._forget(shard)

    async def stop_all(self, because: str) -> None:
        """Stop every shard and return when all of their processes are gone; nothing starts any more."""
        self._ending = True
        tasks = list(self._tasks.values())
        for shard in list(self._shards.values()):
            shard.stop(because)
        if tasks:
            await asyncio.wait(tasks)

    async def adopt(self) -> None:
        """Take over what an earlier agent on this state folder left; `run` must run or begin to."""
        found = await take_stock(self._home)
        await self._running.wait()
        self._kept = dict(found.kept)
        for record, process in found.living:
            shard = Shard.adopted(record, process, self._home)
            log.info("shard %s: adopted, pid %d, %s", record.shard, record.process.pid, shard.state.phase)
            self._own(shard)
        for record, why in found.ended:
            self._shards[record.shard] = await Shard.ended(record, why, self._home)

    def _own(self, shard: Shard) -> None:
        assert self._group is not None
        after = self._tasks.get(shard.spec.shard)
        self._shards[shard.spec.shard] = shard
        self._tasks[shard.spec.shard] = self._group.create_task(self._live(shard, after))

    async def _live(self, shard: Shard, after: asyncio.Task[None] | None) -> None:
        await shard.run(after)
        self._forget(shard)
        if self._tasks.get(shard.spec.shard) is asyncio.current_task():
            del self._tasks[shard.spec.shard]

    def _refusal(self, spec: ShardSpec, known: Shard | None) -> str | None:
        if self._ending or self._group is None:
            return f"the agent on node {self._home.node} is ending"
        if not 0 < len(spec.shard) <= _LONGEST_ID or not spec.shard.isprintable():
            return f"a shard id has 1 to {_LONGEST_ID} printable characters; found {spec.shard[:64]!r}"
        if (kept := self._kept.get(spec.shard)) is not None:
            if kept.holds():
                return kept.because
            del self._kept[spec.shard]
        if known is not None and spec.generation < known.spec.generation:
            return f"{spec.shard} runs in generation {known.spec.generation}, later than {spec.generation}"
        if known is None and len(self._shards) >= MOST_SHARDS:
            return f"node {self._home.node} has {MOST_SHARDS} shards already"
        return None

    def _forget(self, shard: Shard) -> None:
        if shard.state.phase == Phase.STOPPED and self._shards.get(shard.spec.shard) is shard:
            del self._shards[shard.spec.shard]
