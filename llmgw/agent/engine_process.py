"""Engine processes: starting them in a session of their own, finding them again, and stopping all of them.

Guarantees:

1. An engine owes nothing to the agent: own session, output to a file, no pipe. It outlives every object here.
2. A process is signalled only when it is proven to be the one that was meant: same pid, start time and boot, checked
   again behind an open pidfd, which keeps the pid from meaning anybody else.
3. `stop` ends the whole session, not only the leader, and what left the session with the engine's mark on it: engines
   fork helpers, and a helper keeps memory.
"""

import asyncio
import contextlib
import errno
import logging
import os
import signal
import subprocess
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Self

from llmgw.agent.patience import call_within
from llmgw.agent.processes import Identity, Mark, Stat, boot_id, carrying, read_stat, session_of, undescribed

log = logging.getLogger("llmgw.agent.engine_process")

KILL_LIMIT_S = 30.0
_POLL_S = 0.05


class EngineProcess:
    """The leader of an engine's session, held by a pidfd. Letting go of the object leaves the engine running."""

    def __init__(
        self, identity: Identity, mark: Mark | None, pidfd: int, child: subprocess.Popen[bytes] | None = None
    ) -> None:
        self.identity = identity
        self._mark = mark
        self._pidfd = pidfd
        self._child = child

    @property
    def is_child(self) -> bool:
        """Tell one that this agent started, whose exit status it will be told, from one that it adopted."""
        return self._child is not None

    @classmethod
    def spawn(
        cls, argv: tuple[str, ...], *, env: dict[str, str], mark: Mark | None, output: int, folder: Path
    ) -> Self:
        """Start a program with its mark, if it is to have one; its output goes to the descriptor `output`.

        Raises:
            OSError: it cannot be started.
            ValueError: an argument or variable holds what no program can be given.
        """
        child = subprocess.Popen(
            argv,
            env=env | (mark.variables() if mark else {}),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        # Not yet waited for, so it has a pid and an entry in /proc even when it is dead already.
        try:
            pidfd = os.pidfd_open(child.pid)
        except OSError:
            child.kill()
            child.wait()
            raise
        stat = read_stat(child.pid)
        start_ticks = stat.start_ticks if stat else 0
        return cls(Identity(pid=child.pid, start_ticks=start_ticks, boot_id=boot_id()), mark, pidfd, child)

    @classmethod
    def find(cls, identity: Identity, mark: Mark) -> Self | None:
        """Take hold of a process that was started earlier; None when it is gone, or its pid is another's now.

        Raises:
            OSError: the kernel does not say (too many files are open): it may well live.
        """
        if identity.boot_id != boot_id() or identity.pid <= 1:
            return None
        try:
            pidfd = os.pidfd_open(identity.pid)
        except (ProcessLookupError, OverflowError):
            return None
        except OSError as error:
            # What the number means now is a thread of some other process.
            if error.errno == errno.EINVAL:
                return None
            raise
        try:
            alive = is_alive(identity)
        except OSError:
            os.close(pidfd)
            raise
        if not alive:
            os.close(pidfd)
            return None
        return cls(identity, mark, pidfd)

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
        """End the leader and all that belongs to it: SIGTERM, `grace_s` seconds, SIGKILL.

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
        await end_all_of(self.identity, self._mark)
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


def is_alive(identity: Identity) -> bool:
    """Tell whether this very process lives; another one of its pid does not count."""
    if identity.boot_id != boot_id():
        return False
    stat = read_stat(identity.pid)
    return stat is not None and stat.start_ticks == identity.start_ticks and stat.is_alive


async def end_all_of(leader: Identity, mark: Mark | None) -> None:
    """Kill what is left of an engine, by its session and then by its mark, whether its leader lives or not.

    Raises:
        TimeoutError: as `EngineProcess.stop`.
    """
    await _kill(lambda: session_of(leader))
    if mark is not None:
        await _kill(lambda: carrying(mark))


async def kill_undescribed(
    state_dir: Path, sessions: Collection[int] = (), launches: Collection[str] = ()
) -> int:
    """Kill every process of an engine of `state_dir` that is of none of these sessions and launches.

    Returns:
        How many there were at first.

    Raises:
        TimeoutError: as `EngineProcess.stop`.
    """
    return await _kill(lambda: undescribed(state_dir, sessions, launches))


async def _kill(found: Callable[[], tuple[Stat, ...]]) -> int:
    """Kill all that `found` gives, again and again until it gives nothing: a fork may race with the kill."""
    left = await _look(found)
    count = len(left)
    try:
        async with asyncio.timeout(KILL_LIMIT_S):
            while left:
                for stat in left:
                    _kill_one(stat)
                await asyncio.sleep(_POLL_S)
                left = await _look(found)
    except TimeoutError as error:
        names = ", ".join(str(stat.pid) for stat in left)
        raise TimeoutError(f"pid {names} did not die within {KILL_LIMIT_S:g} s of SIGKILL") from error
    return count


async def _look(found: Callable[[], tuple[Stat, ...]]) -> tuple[Stat, ...]:
    # The kernel makes whoever reads a stuck process's environment wait for it.
    try:
        return await call_within(KILL_LIMIT_S, found)
    except TimeoutError:
        log.error("looking for processes of engines took more than %g s; given up", KILL_LIMIT_S)
        return ()


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
