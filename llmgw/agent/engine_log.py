"""The file an engine writes to: it belongs to no process, is bounded without the engine's help, and keeps evidence.

1. The engine has the file open for appending and nobody stands between: it goes on writing whatever becomes of the
   agent, and no pipe can fill up or break.
2. Of each file the newest KEEP_BYTES stay. Room is given back by punching a hole into the file's beginning, so that
   every byte keeps its offset: who reads on from an offset misses nothing that is still there, and what is there
   begins with a whole line. Where the filesystem has no holes, the newest part is copied to the front instead, and
   offsets begin anew.
3. A new run moves the output of the run before to SHARD.log.1. The output of the first crash of a crash loop is kept
   as SHARD.crash.log until the engine has been healthy for long: later crashes often say less.
"""

import asyncio
import contextlib
import ctypes
import errno
import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from llmgw.agent.patience import call_within
from llmgw.core.units import MIB

log = logging.getLogger("llmgw.agent.engine_log")

KEEP_BYTES = 8 * MIB
TRIM_LIMIT_S = 60.0
_SLACK_BYTES = MIB // 4
_KEEP_SIZE, _PUNCH_HOLE = 1, 2
# Filesystems without holes say one of these.
_CANNOT = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.ENODEV, errno.EINVAL})


def begin(log_file: Path) -> None:
    """Make way for a new run: what `log_file` holds is now the run before.

    Raises:
        OSError: the folder cannot be written.
    """
    with contextlib.suppress(FileNotFoundError):
        log_file.replace(log_file.with_name(f"{log_file.name}.1"))


def open_for_engine(log_file: Path) -> int:
    """Open the file for an engine to append to; the caller closes the descriptor.

    Raises:
        OSError: it cannot be made.
    """
    return os.open(log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def keep_crash(log_file: Path, crash_file: Path) -> None:
    """Keep the output of a run that failed, unless that of an earlier one is kept already."""
    try:
        # One more name for the same bytes: it needs no room on a full disk.
        os.link(log_file, crash_file)
    except (FileExistsError, FileNotFoundError):
        return
    except OSError:
        try:
            shutil.copyfile(log_file, crash_file)
        except OSError as error:
            log.error("the output of the first crash cannot be kept in %s: %s", crash_file, error.strerror)


def forget_crash(crash_file: Path) -> None:
    """Forget the first crash: its loop is over."""
    with contextlib.suppress(OSError):
        crash_file.unlink()


async def keep_trimming(folder: Path, every_s: float, keep_bytes: int = KEEP_BYTES) -> None:
    """Bound every file of the folder again and again; cancelling loses nothing."""
    said: set[str] = set()
    while True:
        await asyncio.sleep(every_s)
        try:
            problems = await call_within(TRIM_LIMIT_S, lambda: trim_all(folder, keep_bytes))
        except TimeoutError:
            problems = (
                f"the output of engines in {folder} cannot be bounded: the filesystem does not answer",
            )
        for problem in set(problems) - said:
            log.error("%s", problem)
        said = set(problems)


def trim_all(folder: Path, keep_bytes: int = KEEP_BYTES) -> tuple[str, ...]:
    """Bound every file of the folder; returns a sentence for each that could not be."""
    problems = []
    with contextlib.suppress(FileNotFoundError):
        for path in sorted(folder.iterdir()):
            try:
                trim(path, keep_bytes)
            except FileNotFoundError:
                continue
            except OSError as error:
                problems.append(f"the output in {path} cannot be bounded: {error.strerror}")
    return tuple(problems)


def trim(path: Path, keep_bytes: int = KEEP_BYTES, punch: Callable[[int, int], bool] | None = None) -> None:
    """Give back what a file holds before its newest `keep_bytes`.

    Args:
        punch: makes a hole of all bytes before an offset, and says False where there are no holes; the kernel's own
            when None.

    Raises:
        OSError: it cannot be read or written.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        found = os.fstat(descriptor)
        if found.st_size <= keep_bytes or found.st_blocks * 512 <= keep_bytes + _SLACK_BYTES:
            return
        if not (punch or punch_hole)(descriptor, _line_start(descriptor, found.st_size - keep_bytes)):
            _move_to_front(path, descriptor, found.st_size, keep_bytes)
    finally:
        os.close(descriptor)


def _line_start(descriptor: int, offset: int) -> int:
    """Find the beginning of the line at an offset, so that what is kept begins with a whole one.

    A line that began too far before it is torn after all.
    """
    start = max(0, offset - _SLACK_BYTES // 2)
    found = os.pread(descriptor, offset - start, start).rfind(b"\n")
    return offset if found < 0 else start + found + 1


def punch_hole(descriptor: int, until: int) -> bool:
    """Make a hole of all bytes before `until`; False when the filesystem has no holes.

    Raises:
        OSError: it has, and the hole cannot be made all the same.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    # The C library calls it so where its plain one takes short offsets.
    fallocate = getattr(libc, "fallocate64", None) or libc.fallocate
    fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    while fallocate(descriptor, _PUNCH_HOLE | _KEEP_SIZE, 0, until) != 0:
        number = ctypes.get_errno()
        if number in _CANNOT:
            return False
        if number != errno.EINTR:
            raise OSError(number, os.strerror(number))
    return True


def _move_to_front(path: Path, descriptor: int, size: int, keep_bytes: int) -> None:
    # Copying each time would be dear, so the file may grow to twice its bound. What the engine writes between the
    # reading and the cutting is lost; it is the price of a filesystem without holes.
    if size <= 2 * keep_bytes:
        return
    newest = os.pread(descriptor, keep_bytes, size - keep_bytes)
    os.ftruncate(descriptor, 0)
    with path.open("ab") as file:
        file.write(newest)
