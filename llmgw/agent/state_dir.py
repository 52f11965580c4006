"""The agent's folder on disk: what lies where in it, and the lock that keeps a second agent out."""

import contextlib
import errno
import fcntl
import hashlib
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, unquote

from llmgw.core.errors import BadInput, Conflict

log = logging.getLogger("llmgw.agent.state_dir")

_LONGEST_NAME = 180


def file_name(identity: str) -> str:
    """Make a file name of any id: readable, unique, and never a path; at most 200 bytes."""
    quoted = quote(identity, safe="")
    if 0 < len(quoted) <= _LONGEST_NAME and not quoted.startswith("."):
        return quoted
    # Quoting never makes a comma, so a shortened name meets no quoted one.
    return f"{quoted[:100].lstrip('.')},{hashlib.sha256(identity.encode(errors='replace')).hexdigest()[:16]}"


def identity_of(file: str) -> str | None:
    """Give back the id that `file_name` made this of; None when it was too long to be kept in it."""
    return None if "," in file else unquote(file)


class StateDir:
    """Where an agent keeps its records, the output of its engines, the words of its jobs, and its lock."""

    def __init__(self, path: str) -> None:
        # Engines are marked with this path, so it must be the same however the agent was told of it.
        self.path = Path(os.path.realpath(path))
        self.records = self.path / "records"
        self.logs = self.path / "logs"
        self.jobs = self.path / "jobs"
        self.lock = self.path / "agent.lock"
        self.node = self.path / "node"

    def log_of(self, shard: str) -> Path:
        """Name the file that the output of a shard's engine goes to."""
        return self.logs / f"{file_name(shard)}.log"

    def job_log_of(self, job: str) -> Path:
        """Name the file that a job's words go to, such as `install:llama.cpp`."""
        return self.jobs / f"{file_name(job)}.log"

    def crash_of(self, shard: str) -> Path:
        """Name the file that keeps the output of the first crash of a shard's crash loop."""
        return self.logs / f"{file_name(shard)}.crash.log"

    def make(self) -> None:
        """Make the folders that are not there yet.

        Raises:
            BadInput: they cannot be made here.
        """
        try:
            for folder in (self.path, self.records, self.logs, self.jobs):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise BadInput(
                f"state_dir {self.path} cannot be made: {error.strerror}; "
                "give a folder that this user may write, in agent.yaml or with --state-dir"
            ) from error

    def called(self, node: str) -> str | None:
        """Keep the name of the node that this folder is for.

        Returns:
            What it was called by the agent before, when that was another name and engines are recorded here; None
            otherwise, and when nobody can tell.
        """
        before = None
        with contextlib.suppress(OSError):
            before = self.node.read_text(errors="replace").strip()[:200]
        if before == node:
            return None
        self._keep_name(node)
        return before if before and self._has_records() else None

    def _keep_name(self, node: str) -> None:
        new = self.node.with_suffix(".new")
        try:
            new.write_text(f"{node}\n")
            new.replace(self.node)
        except OSError as error:
            # A disk that takes nothing must not keep an agent from looking after its engines.
            log.warning("%s cannot be written: %s", self.node, error.strerror)
            with contextlib.suppress(OSError):
                new.unlink()

    def _has_records(self) -> bool:
        with contextlib.suppress(OSError):
            return any(self.records.iterdir())
        return False

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the folder for this process; the lock dies with the process, however it ends.

        Raises:
            Conflict: another agent holds it; the message names its pid.
            BadInput: the lock file cannot be opened.
        """
        try:
            descriptor = self._opened()
        except OSError as error:
            raise BadInput(
                f"{self.lock} cannot be opened: {error.strerror}; may this user write it?"
            ) from error
        try:
            self._take(descriptor)
            yield
        finally:
            os.close(descriptor)

    def _opened(self) -> int:
        try:
            return os.open(self.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            if error.errno != errno.EROFS:
                raise
            # A disk that turned read-only must not keep an agent from looking after the engines that run.
            log.error("%s is on a filesystem that cannot be written: nothing can be started", self.path)
            return os.open(self.lock, os.O_RDONLY | os.O_CLOEXEC)

    def _take(self, descriptor: int) -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.read(descriptor, 32).decode(errors="replace").strip() or "unknown"
            raise Conflict(
                f"state_dir {self.path} is held by another llmgw agent, pid {holder}; "
                "stop that one, or give this one a folder of its own with --state-dir"
            ) from error
        # The pid is for people; a full disk takes nothing from the lock itself.
        with contextlib.suppress(OSError):
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
