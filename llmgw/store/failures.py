"""What SQLite's error codes mean to a person, with what to do."""

import sqlite3
from pathlib import Path

from llmgw.core.errors import StoreFailed

_MEANINGS = {
    sqlite3.SQLITE_BUSY: "is locked by another process; see whether a second llmgw server or a backup holds it",
    sqlite3.SQLITE_LOCKED: "is locked by another process; see whether a second llmgw server or a backup holds it",
    sqlite3.SQLITE_FULL: "cannot grow: the disk is full; free some space there",
    sqlite3.SQLITE_READONLY: "may only be read; give the server's user write access to the file and its folder",
    sqlite3.SQLITE_PERM: "may not be opened; give the server's user access to the file and its folder",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened; see that its folder exists and the server's user may write there",
    sqlite3.SQLITE_NOTADB: "is not an SQLite database; move that file away, or name another data_dir",
    sqlite3.SQLITE_CORRUPT: "is damaged; put a backup in its place",
    sqlite3.SQLITE_IOERR: "cannot be read or written: the disk reports an error; look at the kernel's log",
}


def in_words(path: Path, error: BaseException | None) -> StoreFailed:
    """Say what an error of SQLite means for the database at `path`."""
    code = getattr(error, "sqlite_errorcode", None)
    # The upper bits say more about the same kind of error.
    meaning = _MEANINGS.get(code & 0xFF) if code is not None else None
    return StoreFailed(f"the database {path} {meaning or f'failed: {error}'}")
