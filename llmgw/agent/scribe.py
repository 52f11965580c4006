"""One shard's record: taking room for it, writing it, changing it with every step, and forgetting it.

What cannot be written before a launch keeps the engine from being launched, for nobody could take it over. What cannot
be written later is news for the log alone: an engine that serves is worth more than its record.
"""

import logging
from pathlib import Path

from llmgw.agent.discovery.disks import show_room
from llmgw.agent.home import Home
from llmgw.agent.patience import call_within
from llmgw.agent.preflight import Plan, words
from llmgw.agent.processes import Identity, session_of
from llmgw.agent.records import Record
from llmgw.core.fleet.shards import ShardSpec, ShardState

log = logging.getLogger("llmgw.agent.scribe")

WRITE_LIMIT_S = 10.0


class Scribe:
    """Writes one shard's record. Methods that do not wait for themselves are for a thread."""

    def __init__(self, spec: ShardSpec, log_file: Path, home: Home) -> None:
        self._spec = spec
        self._log_file = log_file
        self._home = home

    def make(
        self,
        process: Identity,
        plan: Plan,
        state: ShardState,
        *,
        since_now: float,
        drain_ends_now: float | None = None,
    ) -> Record:
        """Make the record of where the shard is."""
        return Record(
            shard=self._spec.shard,
            generation=self._spec.generation,
            process=process,
            spec=self._spec,
            state=state,
            log=str(self._log_file),
            since_now=since_now,
            health_path=plan.launch.health_path,
            limit_s=plan.limit_s,
            stop_grace_s=plan.launch.stop_grace_s,
            drain_ends_now=drain_ends_now,
        )

    def earlier(self) -> str | None:
        """Say which processes of an earlier run of this shard live still, in spite of all that was done."""
        holder = self._home.records.holder(self._spec.shard)
        left = () if holder is None else session_of(holder)
        if not left:
            return None
        pids = ", ".join(str(stat.pid) for stat in left)
        return (
            f"pid {pids} of an earlier run of {self._spec.shard} on node {self._home.node} would not die, "
            "and no second one is started beside it"
        )

    def reserve(self, record: Record) -> str | None:
        """Take room for a record; returns what is wrong when there is none."""
        try:
            self._home.records.reserve(record)
        except OSError as error:
            self.forget()
            return self.trouble(error)
        return None

    def write(self, record: Record) -> str | None:
        """Write the record of a process that has just been started; returns what is wrong when it cannot be."""
        try:
            self._home.records.write(record)
        except OSError as error:
            return self.trouble(error)
        return None

    async def change(self, record: Record) -> None:
        """Bring the record up to date; gives up after a while."""
        try:
            await call_within(WRITE_LIMIT_S, lambda: self._home.records.change(record))
        except OSError as error:
            why = "the filesystem does not answer" if isinstance(error, TimeoutError) else words(error)
            log.error(
                "shard %s goes on, but its record in %s still says what it did before: %s",
                self._spec.shard,
                self._home.records.folder,
                why,
            )

    async def forgotten(self) -> None:
        """Forget the record; gives up after a while."""
        try:
            await call_within(WRITE_LIMIT_S, self.forget)
        except TimeoutError:
            log.error(
                "the record of shard %s cannot be removed: the filesystem does not answer", self._spec.shard
            )

    def forget(self) -> None:
        """Forget the record; one that stays names a process that is gone, which the next agent will see."""
        try:
            self._home.records.remove(self._spec.shard)
        except OSError as error:
            log.error("the record of shard %s cannot be removed: %s", self._spec.shard, words(error))

    def trouble(self, error: OSError) -> str:
        """Say that there is no record of this shard, why, and how the disk is."""
        folder = self._home.records.folder
        return (
            f"it does not run on node {self._home.node}, because its record cannot be written to {folder}: "
            f"{words(error)}; {show_room(folder)}"
        )
