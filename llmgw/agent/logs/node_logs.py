"""All logs of this node and their parts, joined: the one thing that the agent's root builds of this package."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from llmgw.agent.engine_log import keep_trimming
from llmgw.agent.logs import jobs
from llmgw.agent.logs.desk import LogDesk, Say
from llmgw.agent.logs.keeping import keep_tidy
from llmgw.agent.logs.ring import Ring
from llmgw.agent.logs.sources import Sources
from llmgw.agent.state_dir import StateDir
from llmgw.core.fleet.shards import ShardState
from llmgw.runtime.clock import Clock

TRIM_EVERY_S = 5.0


class NodeLogs:
    """The logs of one agent.

    Attributes:
        desk: takes what the server asks.
        jobs: where installs and downloads put their words.
    """

    def __init__(
        self,
        node: str,
        state_dir: StateDir,
        *,
        shards: Callable[[], tuple[ShardState, ...]],
        say: Say,
        clock: Clock,
    ) -> None:
        """Take what the logs are of; `say` lets an answer wait for the connection there is."""
        self._state_dir = state_dir
        self._shards = shards
        self._clock = clock
        self._ring = Ring()
        self.jobs = jobs.Jobs(state_dir, clock)
        self.desk = LogDesk(Sources(node, state_dir, self._ring, shards), say, clock=clock)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Keep the agent's own lines, and those of its jobs, for as long as the block lasts."""
        root, recorder = logging.getLogger(), jobs.Recorder()
        root.addHandler(recorder)
        try:
            with self._ring.listening():
                yield
        finally:
            root.removeHandler(recorder)

    async def run(self) -> None:
        """Answer for the logs and keep them bounded, until cancelled; begin it when all shards are known."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.desk.run())
            group.create_task(keep_trimming(self._state_dir.jobs, TRIM_EVERY_S, jobs.KEEP_BYTES))
            group.create_task(keep_tidy(self._state_dir, self._shards, self._clock))
