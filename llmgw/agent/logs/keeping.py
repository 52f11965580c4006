"""Which logs stay: those of what runs, and of what ended the newest ones, for a week at most."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection
from datetime import datetime
from functools import partial
from pathlib import Path

from llmgw.agent.patience import call_within
from llmgw.agent.state_dir import StateDir, file_name
from llmgw.core.fleet.shards import ShardState
from llmgw.runtime.clock import Clock

log = logging.getLogger("llmgw.agent.logs.keeping")

MOST_KEPT = 200
KEPT_S = 7 * 24 * 3600.0
EVERY_S = 600.0
LIMIT_S = 60.0
_ENDINGS = (".log", ".log.1", ".crash.log")


async def keep_tidy(
    state_dir: StateDir, shards: Callable[[], tuple[ShardState, ...]], clock: Clock, every_s: float = EVERY_S
) -> None:
    """Remove what is old again and again. Begin it when `shards` lists what an earlier agent left running, too."""
    while True:
        present = frozenset(file_name(state.shard) for state in shards())
        try:
            await call_within(LIMIT_S, partial(tidy, state_dir, present, clock.at()))
        except TimeoutError:
            log.error("old logs in %s are not removed: the filesystem does not answer", state_dir.path)
        await asyncio.sleep(every_s)


def tidy(state_dir: StateDir, present: Collection[str], at: datetime) -> None:
    """Remove logs that nobody needs any more.

    Args:
        present: file names of shards that are on this node now; their logs stay.
    """
    _thin_out(state_dir.logs, present, at)
    _thin_out(state_dir.jobs, (), at)


def _thin_out(folder: Path, present: Collection[str], at: datetime) -> None:
    families: dict[str, list[Path]] = {}
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            if (name := family(path.name)) is not None and name not in present:
                families.setdefault(name, []).append(path)
    newest = sorted(families.values(), key=_written_s, reverse=True)
    for number, paths in enumerate(newest):
        if number >= MOST_KEPT or at.timestamp() - _written_s(paths) > KEPT_S:
            for path in paths:
                with contextlib.suppress(OSError):
                    path.unlink()


def family(file: str) -> str | None:
    """Give the name that all logs of one shard or job begin with; None when the file is none of ours."""
    for ending in sorted(_ENDINGS, key=len, reverse=True):
        if file.endswith(ending):
            return file.removesuffix(ending)
    return None


def _written_s(paths: list[Path]) -> float:
    """Tell when one of the files was written last, Unix seconds."""
    times = [0.0]
    for path in paths:
        with contextlib.suppress(OSError):
            times.append(path.stat().st_mtime)
    return max(times)
