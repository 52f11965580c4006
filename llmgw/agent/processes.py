"""Telling processes apart: who one is in all of a machine's life, what it carries, and which belong to an engine.

Every process of an engine carries two variables in its environment: the state folder of the agent that started it, and
which shard in which generation it is of. A program may overwrite its environment, so what belongs to an engine is also
known by its session.
"""

import os
import signal
from collections.abc import Collection, Iterator
from pathlib import Path

import msgspec

from llmgw.core.ids import Generation

PROC = Path("/proc")
MARK = "LLMGW_ENGINE_OF"
"""Environment variable of every engine: the state folder of the agent that started it."""
LAUNCH = "LLMGW_ENGINE"
"""Environment variable of every engine: shard and generation, as `launch_name` writes them. Never changes its form."""
_LONGEST_COMMAND = 80


class Stat(msgspec.Struct, frozen=True, kw_only=True):
    """The part of /proc/PID/stat that is read; `start_ticks` are clock ticks since boot."""

    pid: int
    state: str
    session: int
    start_ticks: int

    @property
    def is_alive(self) -> bool:
        """Tell it from a zombie."""
        return self.state not in ("Z", "X", "x")


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """What makes a process the same process, in all of a machine's life."""

    pid: int
    start_ticks: int
    boot_id: str


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """What all processes of one engine carry in their environment."""

    state_dir: str
    launch: str

    def variables(self) -> dict[str, str]:
        """Give the mark as environment variables."""
        return {MARK: self.state_dir, LAUNCH: self.launch}


def launch_name(shard: str, generation: Generation) -> str:
    """Name one launch of a shard: `gemma.0.0@1.7`."""
    return f"{shard}@{generation}"


def parse_stat(text: str) -> Stat | None:
    """Read /proc/PID/stat; None when it is not one. A name may hold blanks and brackets, so the last `)` counts."""
    head, _, rest = text.rpartition(")")
    fields = rest.split()
    try:
        return Stat(
            pid=int(head.split(maxsplit=1)[0]),
            state=fields[0],
            session=int(fields[3]),
            start_ticks=int(fields[19]),
        )
    except (ValueError, IndexError):
        return None


def read_stat(pid: int) -> Stat | None:
    """Look a process up; None when there is none that may be seen.

    Raises:
        OSError: the kernel does not say (too many files are open).
    """
    try:
        return parse_stat((PROC / str(pid) / "stat").read_text(errors="replace"))
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None


def boot_id() -> str:
    """Return what the kernel calls this boot."""
    return (PROC / "sys/kernel/random/boot_id").read_text().strip()


def all_processes() -> Iterator[Stat]:
    """Yield every process that can be seen."""
    for name in os.listdir(PROC):
        if name.isdecimal() and (stat := read_stat(int(name))) is not None:
            yield stat


def session_of(leader: Identity) -> tuple[Stat, ...]:
    """List who lives in the session that `leader` began, itself included.

    The number of a session is free for reuse only when nobody is left in it. So what is found in session N is the
    leader's as long as N itself has not come to be the pid of another process.
    """
    if leader.boot_id != boot_id() or leader.pid <= 1:
        return ()
    now = read_stat(leader.pid)
    if now is not None and now.start_ticks != leader.start_ticks:
        return ()
    return tuple(stat for stat in all_processes() if stat.session == leader.pid and stat.is_alive)


def carrying(mark: Mark) -> tuple[Stat, ...]:
    """Find living processes that carry both variables of `mark`. May wait for a process that hangs in the kernel."""
    wanted = {f"{name}={value}".encode() for name, value in mark.variables().items()}
    return tuple(stat for stat in _others() if wanted <= _variables(stat.pid))


def undescribed(
    state_dir: Path, sessions: Collection[int] = (), launches: Collection[str] = ()
) -> tuple[Stat, ...]:
    """Find living processes of engines of `state_dir` that are of none of these sessions and launches.

    May wait for a process that hangs in the kernel.
    """
    owner = f"{MARK}={state_dir}".encode()
    named = {f"{LAUNCH}={launch}".encode() for launch in launches}
    return tuple(
        stat
        for stat in _others()
        if stat.session not in sessions and owner in (found := _variables(stat.pid)) and not named & found
    )


def launch_of(pid: int) -> str | None:
    """Name the launch that a process says it is of; None when it says nothing. May wait as `carrying`."""
    prefix = f"{LAUNCH}=".encode()
    said = (variable.removeprefix(prefix) for variable in _variables(pid) if variable.startswith(prefix))
    return next((one.decode(errors="replace") for one in said), None)


def belongs(pid: int, state_dir: Path, sessions: Collection[int]) -> bool:
    """Tell whether a process is of an engine of `state_dir`: it lives in one of these sessions, or carries the mark.

    May wait for a process that hangs in the kernel.
    """
    try:
        stat = read_stat(pid)
    except OSError:
        return False
    if stat is None:
        return False
    return stat.session in sessions or f"{MARK}={state_dir}".encode() in _variables(pid)


def command_of(pid: int, proc: Path = PROC) -> str | None:
    """Name the program of a process; None when that may not be seen."""
    # Not the command line: reading that waits for a process that hangs in the kernel, and may show secrets.
    try:
        return (proc / str(pid) / "comm").read_text(errors="replace").strip()[:_LONGEST_COMMAND] or None
    except OSError:
        return None


def _others() -> Iterator[Stat]:
    return (stat for stat in all_processes() if stat.pid != os.getpid() and stat.is_alive)


def _variables(pid: int) -> frozenset[bytes]:
    try:
        return frozenset((PROC / str(pid) / "environ").read_bytes().split(b"\0"))
    except OSError:
        return frozenset()


def signal_name(number: int) -> str:
    """Name a signal: `signal 9 (SIGKILL)`."""
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number}"
