"""The server's folder: one process at a time uses it, and says in it where it listens."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from llmgw.core.errors import BadInput, Conflict
from llmgw.server.listeners import Listening

DATABASE = "llmgw.db"
LOCK = "server.lock"
LISTENING = "listening.json"


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Make the folder if need be and keep other servers out of it for as long as the block lasts.

    Raises:
        Conflict: another server uses it; names its pid.
        BadInput: it cannot be made or written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o750)
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    except OSError as error:
        raise BadInput(
            f"data_dir {folder} cannot be used: {error.strerror}; "
            "run as a user who may write there, or name another folder with --data-dir or in server.yaml"
        ) from error
    try:
        _lock(lock, folder)
        yield
    finally:
        # The lock goes with its descriptor, however this process ends.
        os.close(lock)


def _lock(lock: int, folder: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = os.read(lock, 20).decode(errors="replace").strip() or "unknown"
        raise Conflict(
            f"data_dir {folder} is used by another llmgw server, pid {holder}; end that one, or name another folder"
        ) from error
    os.ftruncate(lock, 0)
    os.pwrite(lock, b"%d\n" % os.getpid(), 0)


@contextmanager
def announced(folder: Path, listening: Listening) -> Iterator[None]:
    """Say in listening.json where this process listens, for as long as the block lasts."""
    path, temporary = folder / LISTENING, folder / f"{LISTENING}.new"
    said = {"pid": os.getpid()} | msgspec.structs.asdict(listening)
    temporary.write_bytes(msgspec.json.encode(said) + b"\n")
    temporary.replace(path)
    try:
        yield
    finally:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
