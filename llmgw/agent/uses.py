"""How much main memory each shard holds, and the most it has held: what its processes have, as the kernel counts it.

What is counted, of all processes in the session of a shard's engine (/proc/PID/status):

1. Anonymous memory (RssAnon) of all of them: nobody else has it.
2. Shared memory (RssShmem) and pages of files (RssFile) of the one that has most of it: processes of one engine map
   the same segments, libraries and weights, and adding them up would count one page many times. Weights that are
   mapped count so, for a machine that has no room for them is too small.

The peak of a single process is the kernel's own high-water mark (VmHWM), which also knows what was held between two
looks, and before the agent was restarted. Of several processes it is the most that was seen at once.
"""

import logging
import os
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from llmgw.agent.patience import Looks
from llmgw.agent.processes import parse_stat
from llmgw.core.fleet.beat import ShardUse
from llmgw.core.fleet.shards import LIVE, ShardState

log = logging.getLogger("llmgw.agent.uses")

LOOK_LIMIT_S = 2.0
_KIB = 1024


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """Memory of one process, in bytes; `start_ticks` tells it from a later one of its pid."""

    start_ticks: int
    anonymous: int
    file: int
    shared: int
    high_water: int


class Uses:
    """Looks at the memory of the shards. Owner of the peaks seen so far."""

    def __init__(self, shards: Callable[[], Iterable[ShardState]], *, root: Path = Path("/")) -> None:
        """Take where the shards are told.

        Args:
            root: where /proc is.
        """
        self._shards = shards
        self._proc = root / "proc"
        self._looks = Looks()
        self._peaks: dict[tuple[str, int, int], int] = {}

    async def now(self) -> tuple[ShardUse, ...] | None:
        """Look at every shard that runs; None when the kernel does not tell in time."""
        leaders = {
            state.pid: state.shard
            for state in self._shards()
            if state.pid is not None and state.phase in LIVE
        }
        try:
            held = await self._looks.within(LOOK_LIMIT_S, "uses", lambda: read_sessions(leaders, self._proc))
        except (TimeoutError, OSError) as error:
            log.warning("the memory of the shards cannot be told: %s", error or "the kernel does not answer")
            return None
        return self._taken(leaders, held)

    def _taken(self, leaders: dict[int, str], held: dict[int, dict[int, Held]]) -> tuple[ShardUse, ...]:
        uses, peaks = [], {}
        for leader, processes in held.items():
            if leader not in processes:
                # Its leader has ended; what is left of it is about to.
                continue
            key = (leaders[leader], leader, processes[leader].start_ticks)
            now, most = together(processes.values())
            peaks[key] = max(most, self._peaks.get(key, 0))
            uses.append(ShardUse(shard=leaders[leader], memory_bytes=now, peak_bytes=peaks[key]))
        self._peaks = peaks
        return tuple(uses)


def together(processes: Iterable[Held]) -> tuple[int, int]:
    """Return what the processes of one shard hold together, and the most they can be proven to have held."""
    all_of = list(processes)
    anonymous = sum(one.anonymous for one in all_of)
    now = anonymous + max(one.file for one in all_of) + max(one.shared for one in all_of)
    return now, max(now, all_of[0].high_water) if len(all_of) == 1 else now


def read_sessions(leaders: Iterable[int], proc: Path) -> dict[int, dict[int, Held]]:
    """Read the memory of all living processes of some sessions, by the session's leader and then by pid."""
    found: dict[int, dict[int, Held]] = {leader: {} for leader in leaders}
    if not found:
        return found
    for name in os.listdir(proc):
        if not name.isdecimal():
            continue
        stat = parse_stat(_text(proc / name / "stat"))
        if stat is None or stat.session not in found or not stat.is_alive:
            continue
        held = parse_status(_text(proc / name / "status"), stat.start_ticks)
        if held is not None:
            found[stat.session][stat.pid] = held
    return found


def parse_status(text: str, start_ticks: int = 0) -> Held | None:
    """Read the sizes in /proc/PID/status; None for what has no memory of its own, such as a zombie."""
    sizes = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        number = value.split()[:1]
        if name in ("VmHWM", "RssAnon", "RssFile", "RssShmem") and number and number[0].isdecimal():
            sizes[name] = int(number[0]) * _KIB
    if "RssAnon" not in sizes:
        return None
    return Held(
        start_ticks=start_ticks,
        anonymous=sizes["RssAnon"],
        file=sizes.get("RssFile", 0),
        shared=sizes.get("RssShmem", 0),
        high_water=sizes.get("VmHWM", 0),
    )


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        # It has ended since it was listed.
        return ""
