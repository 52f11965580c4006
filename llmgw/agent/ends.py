"""How the end of an engine is put into words, and whether the kernel ended it for want of memory."""

from pathlib import Path

from llmgw.agent.processes import PROC, signal_name
from llmgw.core.fleet.shards import Phase

_KILLED = -9
LATELY_S = 60.0


def read_memory_kills(proc: Path = PROC) -> int | None:
    """Read how many processes the kernel has ended for want of memory since boot, cgroups' included."""
    try:
        for line in (proc / "vmstat").read_text().splitlines():
            name, _, value = line.partition(" ")
            if name == "oom_kill" and value.isdecimal():
                return int(value)
    except OSError:
        return None
    return None


class MemoryKills:
    """Counts what the kernel ended lately: since a look that is one to two LATELY_S old, or since the first."""

    def __init__(self, count: int | None, now: float) -> None:
        self._before = self._since = (now, count)

    def note(self, count: int | None, now: float) -> None:
        """Take a look; those that come too soon are not kept."""
        if now - self._since[0] >= LATELY_S:
            self._before, self._since = self._since, (now, count)

    def lately(self, count: int | None) -> int | None:
        """Tell how many have been ended lately if there are `count` by now; None when the kernel does not say."""
        before = self._before[1]
        return None if count is None or before is None else max(0, count - before)


def exit_words(engine: str, phase: Phase, status: int | None, *, adopted: bool, kills: int | None) -> str:
    """Say how an engine ended.

    Args:
        status: as Popen has it; None when nobody knows, as of a process that is not our child.
        kills: how many processes the kernel ended lately for want of memory; None when it does not say.
    """
    when = f"while {phase.value}"
    if status is None:
        how = " (status unknown: it was adopted)" if adopted else ""
        return f"{engine} ended{how} {when}{_maybe(kills)}"
    if status >= 0:
        return f"{engine} ended with status {status} {when}"
    if status == _KILLED and kills is None:
        return f"{engine} was ended by {signal_name(9)}, which the kernel sends when memory runs out, {when}"
    if status == _KILLED and not kills:
        return f"{engine} was ended by {signal_name(9)} {when}; not by the kernel for want of memory"
    memory = _maybe(kills) if status == _KILLED else ""
    return f"{engine} was ended by {signal_name(-status)} {when}{memory}"


def _maybe(kills: int | None) -> str:
    if not kills:
        return ""
    count = "a process" if kills == 1 else f"{kills} processes"
    return f"; the kernel ended {count} of this machine for want of memory in the last minutes"
