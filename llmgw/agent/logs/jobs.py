"""What the agent's own jobs say, each in a file of its own: installing an engine, fetching weights.

The words stay when the job is over, and above all when it failed. A new job of the same name keeps those of the one
before beside its own, and makes no file before it says something. A full disk never stops a job: its words are then
lost, and the agent's own log says so once.
"""

import contextlib
import logging
import os
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Self

from llmgw.agent import engine_log
from llmgw.agent.state_dir import StateDir
from llmgw.core.units import MIB
from llmgw.runtime.clock import Clock
from llmgw.runtime.redaction import redact

log = logging.getLogger("llmgw.agent.logs.jobs")

KEEP_BYTES = MIB
_LONGEST = 4096


class JobLog:
    """Where one job puts its words; a context manager that closes the file."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._descriptor: int | None = None
        self._is_over = False
        self._since_trim = 0

    def line(self, text: str) -> None:
        """Add a line (or several) with the time; credentials are cut out."""
        at = self._clock.at().strftime("%Y-%m-%dT%H:%M:%S")
        said = redact(text.replace("\r", "\n"))
        self._write("".join(f"{at} {part[:_LONGEST]}\n" for part in said.split("\n") if part.strip()))

    @contextlib.contextmanager
    def output(self) -> Iterator[int]:
        """Lend a descriptor that a program started by the job writes its output to; it may outlive the block."""
        if (descriptor := self._opened()) is not None:
            yield descriptor
            return
        nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        try:
            yield nowhere
        finally:
            os.close(nowhere)

    def close(self) -> None:
        """Close the file; what was said stays, and nothing more is kept."""
        self._is_over = True
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _opened(self) -> int | None:
        """Begin the file, unless that was done; None when it cannot be."""
        if self._descriptor is None and not self._is_over:
            try:
                engine_log.begin(self._path)
                self._descriptor = engine_log.open_for_engine(self._path)
            except OSError as error:
                self._give_up(error)
        return self._descriptor

    def _give_up(self, error: OSError) -> None:
        # Closed first: this very line may be one of the job's own.
        self.close()
        log.error("what %s says cannot be kept: %s", self._path.stem, error.strerror)

    def _write(self, text: str) -> None:
        descriptor = self._opened() if text else None
        if descriptor is None:
            return
        data = text.encode(errors="replace")
        try:
            os.write(descriptor, data)
            self._since_trim += len(data)
            if self._since_trim > KEEP_BYTES // 4:
                self._since_trim = 0
                engine_log.trim(self._path, KEEP_BYTES)
        except OSError as error:
            self._give_up(error)


_recorded: ContextVar[JobLog | None] = ContextVar("recorded", default=None)


class Recorder(logging.Handler):
    """Puts what is logged on behalf of a job (see `Jobs.recording`) into the job's own log, too."""

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record of the job that this task works for, if it works for one."""
        job = _recorded.get()
        if job is not None:
            level = f"{record.levelname} " if record.levelno >= logging.WARNING else ""
            job.line(level + self.format(record))


class Jobs:
    """Makes the logs of jobs."""

    def __init__(self, state_dir: StateDir, clock: Clock) -> None:
        self._state_dir = state_dir
        self._clock = clock

    def open(self, name: str) -> JobLog:
        """Begin the log of a job; its name is the source that it is shown as.

        Args:
            name: `install:ENGINE` or `fetch:CACHE-NAME`.
        """
        return JobLog(self._state_dir.job_log_of(name), self._clock)

    @contextlib.contextmanager
    def recording(self, name: str) -> Iterator[JobLog]:
        """Let all that this task logs while the block lasts be the job's words; what its threads log is not."""
        with self.open(name) as job:
            token = _recorded.set(job)
            try:
                yield job
            finally:
                _recorded.reset(token)
