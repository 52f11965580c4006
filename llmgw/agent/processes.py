"""Engine processes: starting them in a session of their own, telling them from strangers, and stopping all of them.

Guarantees:

1. An engine owes nothing to the agent: own session, output to a file, no pipe. It outlives every object here.
2. A process is signalled only when it is proven to be the one that was meant: same pid, start time and boot, checked
   again behind an open pidfd, which keeps the pid from meaning anybody else.
3. `stop` ends the whole session, not only the leader: engines fork helpers, and a helper keeps memory.
4. A number of a session is free for reuse only when nobody is left in it. So what is found in session N is ours as long
   as N itself has not come to be the pid of another process.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Self

import msgspec

from llmgw.agent.patience import call_within

PROC = Path("/proc")
KILL_LIMIT_S = 30.0
_POLL_S = 0.05
MARK = "LLMGW_ENGINE_OF"
"""Environment variable of every engine: the state folder of the agent that started it."""


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
    """Look a process up; None when there is none."""
    try:
        return parse_stat((PROC / str(pid) / "stat").read_text(errors="replace"))
    except OSError:
        return None


def boot_id() -> str:
    """Return what the kernel calls this boot."""
    return (PROC / "sys/kernel/random/boot_id").read_text().strip()


def all_processes() -> Iterator[Stat]:
    """Yield every process that can be seen."""
    for name in os.listdir(PROC):
        if name.isdecimal() and (stat := read_stat(int(name))) is not None:
            yield stat


def marked(state_dir: Path) -> tuple[Stat, ...]:
    """Find living processes that carry the mark of an engine of `state_dir`, this process left out."""
    wanted = f"{MARK}={state_dir}".encode()
    return tuple(
        s for s in all_processes() if s.pid != os.getpid() and s.is_alive and _carries(s.pid, wanted)
    )


def _carries(pid: int, variable: bytes) -> bool:
    try:
        return variable in (PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return False


def signal_name(number: int) -> str:
    """Name a signal: `signal 9 (SIGKILL)`."""
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number}"


class EngineProcess:
    """The leader of an engine's session, held by a pidfd. Letting go of the object leaves the engine running."""

    def __init__(self, identity: Identity, pidfd: int, child: subprocess.Popen[bytes] | None = None) -> None:
        self.identity = identity
        self._pidfd = pidfd
        self._child = child

    @classmethod
    def spawn(cls, argv: tuple[str, ...], *, env: Mapping[str, str], log: Path, folder: Path) -> Self:
        """Start a program; its output goes to `log`, what `log` held before moves to a file beside it.

        Raises:
            OSError: it cannot be started, or `log` cannot be written.
            ValueError: an argument or variable holds what no program can be given.
        """
        with contextlib.suppress(FileNotFoundError):
            log.replace(log.with_name(f"{log.name}.1"))
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            child = subprocess.Popen(
                argv,
                env=env,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=descriptor,
                stderr=descriptor,
                start_new_session=True,
            )
        finally:
            os.close(descriptor)
        # Not yet waited for, so it has a pid and an entry in /proc even when it is dead already.
        try:
            pidfd = os.pidfd_open(child.pid)
        except OSError:
            child.kill()
            child.wait()
            raise
        stat = read_stat(child.pid)
        start_ticks = stat.start_ticks if stat else 0
        return cls(Identity(pid=child.pid, start_ticks=start_ticks, boot_id=boot_id()), pidfd, child)

    @classmethod
    def find(cls, identity: Identity) -> Self | None:
        """Take hold of a process that was started earlier; None when it is gone, or its pid is another's now."""
        if identity.boot_id != boot_id() or identity.pid <= 1:
            return None
        try:
            pidfd = os.pidfd_open(identity.pid)
        except OSError:
            return None
        stat = read_stat(identity.pid)
        if stat is None or stat.start_ticks != identity.start_ticks or not stat.is_alive:
            os.close(pidfd)
            return None
        return cls(identity, pidfd)

    async def wait(self) -> None:
        """Return when the leader has ended, at once. Cancelling leaves it as it is."""
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        # The one descriptor may be waited for by several at a time only through copies.
        copy = os.dup(self._pidfd)
        try:
            loop.add_reader(copy, ended.set)
            await ended.wait()
        finally:
            loop.remove_reader(copy)
            os.close(copy)

    async def stop(self, grace_s: float) -> int | None:
        """End the leader and everything in its session: SIGTERM, `grace_s` seconds, SIGKILL.

        Returns:
            The exit status as Popen has it (negative is a signal), or None when it was not our child.

        Raises:
            TimeoutError: something would not die within KILL_LIMIT_S; the message names it.
        """
        self._signal(signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                await self.wait()
        self._signal(signal.SIGKILL)
        await _kill(self._session, KILL_LIMIT_S)
        return None if self._child is None else self._child.poll()

    def release(self) -> None:
        """Let go of the process without touching it."""
        os.close(self._pidfd)
        if self._child is not None and self._child.poll() is None:
            # Its destructor would complain of a child that still runs, which is just what is wanted here.
            self._child.returncode = 0

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            signal.pidfd_send_signal(self._pidfd, number)

    def _session(self) -> tuple[Stat, ...]:
        """List who lives in the session (guarantee 4; our own child stays a zombie and holds the number)."""
        leader = read_stat(self.identity.pid)
        if leader is not None and leader.start_ticks != self.identity.start_ticks:
            return ()
        return tuple(s for s in all_processes() if s.session == self.identity.pid and s.is_alive)


async def kill_marked(state_dir: Path) -> int:
    """Kill every process that carries the mark of `state_dir`; returns how many there were at first.

    Raises:
        TimeoutError: as `EngineProcess.stop`.
    """
    # The kernel makes whoever reads a stuck process's environment wait for it.
    count = len(await call_within(KILL_LIMIT_S, lambda: marked(state_dir)))
    if count:
        await _kill(lambda: marked(state_dir), KILL_LIMIT_S)
    return count


async def _kill(found: Callable[[], tuple[Stat, ...]], within_s: float) -> None:
    """Kill all that `found` gives, again and again until it gives nothing: a fork may race with the kill."""
    try:
        async with asyncio.timeout(within_s):
            while left := found():
                for stat in left:
                    _kill_one(stat)
                await asyncio.sleep(_POLL_S)
    except TimeoutError as error:
        names = ", ".join(str(stat.pid) for stat in found())
        raise TimeoutError(f"pid {names} did not die within {within_s:g} s of SIGKILL") from error


def _kill_one(stat: Stat) -> None:
    try:
        pidfd = os.pidfd_open(stat.pid)
    except OSError:
        return
    try:
        now = read_stat(stat.pid)
        if now is not None and now.start_ticks == stat.start_ticks:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    finally:
        os.close(pidfd)
