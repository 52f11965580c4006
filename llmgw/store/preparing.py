"""Make a database file ready to be used: made, checked, in WAL mode and of the newest schema.

Rules:

1. The folder and the file are made when they are missing, for the server's user alone.
2. A schema that is newer than this version is refused, and so is a file that is no database; nothing is changed then.
3. A schema that is behind is migrated whole or not at all, in one transaction; before that the database is copied to
   `FILE.before-VERSION` beside it (unless it was just made).
4. Two processes that start together go one after the other: each holds a lock on the folder, which ends with it.
"""

import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, create_engine, event
from sqlalchemy.exc import DBAPIError

from llmgw.core.errors import StoreFailed
from llmgw.store.failures import in_words


def prepare(path: Path, *, migrations: Path, busy_timeout_s: float) -> None:
    """Make the database at `path` ready; blocks, so call it in a thread.

    Args:
        migrations: the folder of env.py and versions/.
        busy_timeout_s: how long to wait for another process's lock on the database.

    Raises:
        StoreFailed: in words for an operator.
    """
    _make_folder(path.parent)
    with _locked(path.parent):
        _make_file(path)
        try:
            _settle(path, migrations, busy_timeout_s)
        except sqlite3.Error as error:
            raise in_words(path, error) from error
        except DBAPIError as error:
            raise in_words(path, error.orig) from error


def newest_version(migrations: Path) -> str:
    """Find the newest schema version; versions are the numbers that the files of migrations begin with."""
    return max(file.name.partition("_")[0] for file in (migrations / "versions").glob("[0-9]*_*.py"))


def schema_version(connection: sqlite3.Connection) -> str | None:
    """Read which version a database's schema is of; None for one that was never migrated."""
    table = connection.execute(
        "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'alembic_version'"
    )
    if table.fetchone() is None:
        return None
    row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    return None if row is None else str(row[0])


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o750, parents=True, exist_ok=True)
    except OSError as error:
        raise StoreFailed(
            f"the data folder {folder} cannot be made: {error.strerror}; "
            "make it for the server's user, or name another data_dir"
        ) from error


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _make_file(path: Path) -> None:
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise StoreFailed(
            f"the database {path} cannot be opened for writing: {error.strerror}; "
            "give the server's user write access to the file and its folder"
        ) from error


def _settle(path: Path, migrations: Path, busy_timeout_s: float) -> None:
    newest = newest_version(migrations)
    with closing(sqlite3.connect(path, timeout=busy_timeout_s, isolation_level=None)) as connection:
        version = schema_version(connection)
        if version is not None and version > newest:
            raise StoreFailed(
                f"the database {path} is of schema {version}, and this version knows up to {newest}: "
                f"a newer llmgw wrote it; install that one, or put back a copy such as {path.name}.before-{version}"
            )
        if version is None and _has_tables(connection):
            raise StoreFailed(
                f"the database {path} is not one of llmgw; move it away, or name another data_dir"
            )
        connection.execute("PRAGMA journal_mode = WAL")
    if version != newest:
        _migrate(path, version, migrations, busy_timeout_s)


def _has_tables(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is not None


def _migrate(path: Path, version: str | None, migrations: Path, busy_timeout_s: float) -> None:
    upgrade: Any = import_module("llmgw.store.upgrade").upgrade
    engine = create_engine(
        f"sqlite+pysqlite:///{path}", connect_args={"timeout": busy_timeout_s, "isolation_level": None}
    )
    event.listen(engine, "begin", _begin_writing)
    try:
        # The write lock is taken before the copy is made, so that the copy is what the migration begins with.
        with engine.begin() as connection:
            if version is not None:
                _copy(path, path.with_name(f"{path.name}.before-{newest_version(migrations)}"))
            upgrade(connection, migrations)
    finally:
        engine.dispose()


def _begin_writing(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _copy(source: Path, target: Path) -> None:
    partial = target.with_name(f"{target.name}.partial")
    partial.unlink(missing_ok=True)
    with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(partial)) as new:
        old.backup(new)
    partial.chmod(0o600)
    partial.replace(target)
