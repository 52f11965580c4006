"""Which logs this node can show, and each of them by its name."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from llmgw.agent.logs.file_log import FileLog
from llmgw.agent.logs.keeping import family
from llmgw.agent.logs.lines import Flush
from llmgw.agent.logs.position import Chunk, Position
from llmgw.agent.logs.ring import Ring
from llmgw.agent.state_dir import StateDir, identity_of
from llmgw.core.fleet.logs import AGENT, CRASH, FETCH, INSTALL
from llmgw.core.fleet.shards import ShardState

_SHOWN = 20


class Source(Protocol):
    """One log."""

    def tail(self, most: int) -> tuple[str, ...]:
        """Give the newest lines."""

    def begin(self, lines: int) -> Position | None:
        """Give the place that so many of the newest lines follow; None when there is nothing yet."""

    def read(self, position: Position | None, *, flush: Flush = ..., until: Position | None = ...) -> Chunk:
        """Read a part of what follows a place."""


class Sources:
    """The logs of a node. Everything here reads the disk, so it is called in a thread."""

    def __init__(
        self, node: str, state_dir: StateDir, ring: Ring, shards: Callable[[], tuple[ShardState, ...]]
    ) -> None:
        """Take where logs are; `shards` lists those that are on this node now."""
        self._node = node
        self._state_dir = state_dir
        self._ring = ring
        self._shards = shards

    def names(self) -> tuple[str, ...]:
        """List all that can be shown: the agent, shards with their crashes, jobs."""
        shards = {state.shard for state in self._shards()}
        jobs = set()
        for name in _families(self._state_dir.logs):
            if (shard := identity_of(name)) is not None:
                shards.add(shard)
        crashes = {f"{shard}{CRASH}" for shard in shards if self._state_dir.crash_of(shard).exists()}
        for name in _families(self._state_dir.jobs):
            if (job := identity_of(name)) is not None:
                jobs.add(job)
        return (AGENT, *sorted(shards | crashes), *sorted(jobs))

    def find(self, name: str) -> Source | str:
        """Find a log by its name; returns why there is none."""
        if name == AGENT:
            return self._ring
        path = self._path_of(name)
        if path.exists() or path.with_name(f"{path.name}.1").exists():
            return FileLog(path)
        for state in self._shards():
            if state.shard == name:
                return FileLog(path)
        names = self.names()
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        return f"no log source {name!r} on node {self._node}; it has: {', '.join(names[:_SHOWN])}{more}"

    def silence(self, name: str) -> str | None:
        """Say why a log that is there has no lines."""
        for state in self._shards():
            if state.shard == name:
                why = f": {state.reason}" if state.reason else ""
                return f"shard {name} has written nothing; it is {state.phase.value}{why}"
        return None

    def _path_of(self, name: str) -> Path:
        if name.startswith((INSTALL, FETCH)):
            return self._state_dir.job_log_of(name)
        if name.endswith(CRASH):
            return self._state_dir.crash_of(name.removesuffix(CRASH))
        return self._state_dir.log_of(name)


def _families(folder: Path) -> set[str]:
    with contextlib.suppress(OSError):
        return {name for path in folder.iterdir() if (name := family(path.name)) is not None}
    return set()
