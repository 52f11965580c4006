"""The SQLite database: one connection writes, a few others read, and no transaction outlives its block.

Guarantees:

1. What a `write` block did is on the disk when the block ends, and gone when it raises or is cancelled.
2. A `read` block sees one state of the database, whatever is written meanwhile, and cannot write.
3. Every failure of SQLite is a StoreFailed in words; IntegrityError alone passes, for callers that expect it.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

from sqlalchemy import Connection, event
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from llmgw.runtime.resources import packaged
from llmgw.store.failures import in_words
from llmgw.store.preparing import prepare

BUSY_TIMEOUT_S = 5.0
READERS = 4


class Database:
    """An open database; made by `open`, ended by `close`."""

    def __init__(self, path: Path, writer: AsyncEngine, reader: AsyncEngine) -> None:
        self.path = path
        self._writer = writer
        self._reader = reader
        self._writing = asyncio.Lock()

    @classmethod
    async def open(
        cls, path: str | Path, *, busy_timeout_s: float = BUSY_TIMEOUT_S, migrations: Path | None = None
    ) -> Self:
        """Open the database file, making and migrating it as needed.

        Args:
            busy_timeout_s: how long to wait for another process's lock.
            migrations: another folder of migrations than the packaged one, for tests.

        Raises:
            StoreFailed: it cannot be made, opened, read, or is of a newer version; in words for an operator.
        """
        path = Path(path)
        scripts = migrations or packaged("store/migrations")
        await asyncio.to_thread(prepare, path, migrations=scripts, busy_timeout_s=busy_timeout_s)
        writer = _engine(path, busy_timeout_s, connections=1, begin="BEGIN IMMEDIATE", query_only=False)
        reader = _engine(path, busy_timeout_s, connections=READERS, begin="BEGIN", query_only=True)
        return cls(path, writer, reader)

    async def close(self) -> None:
        """Close every connection; SQLite folds its write-ahead log into the file."""
        await self._reader.dispose()
        await self._writer.dispose()

    @asynccontextmanager
    async def write(self) -> AsyncIterator[AsyncConnection]:
        """Give the writing connection in a transaction, to one block at a time.

        Raises:
            StoreFailed: the disk is full, the file is locked by another process, and so on.
        """
        async with self._writing, self._transaction(self._writer) as connection:
            yield connection

    @asynccontextmanager
    async def read(self) -> AsyncIterator[AsyncConnection]:
        """Give a reading connection in a transaction.

        Raises:
            StoreFailed: as `write`.
        """
        async with self._transaction(self._reader) as connection:
            yield connection

    @asynccontextmanager
    async def _transaction(self, engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
        try:
            async with engine.begin() as connection:
                yield connection
        except IntegrityError:
            raise
        except DBAPIError as error:
            raise in_words(self.path, error.orig) from error


def _engine(
    path: Path, busy_timeout_s: float, *, connections: int, begin: str, query_only: bool
) -> AsyncEngine:
    engine = create_async_engine(
        f"sqlite+aiosqlite:///{path}",
        pool_size=connections,
        max_overflow=0,
        # sqlite3 would begin transactions by guessing at statements; here every one begins where it says so.
        connect_args={"timeout": busy_timeout_s, "isolation_level": None},
    )

    def on_connect(connection: Any, _record: object) -> None:
        cursor = connection.cursor()
        for pragma in (
            "foreign_keys = ON",
            # A catalog that was applied and a key that was shown must survive a power cut.
            "synchronous = FULL",
            f"query_only = {'ON' if query_only else 'OFF'}",
        ):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    def on_begin(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    event.listen(engine.sync_engine, "connect", on_connect)
    event.listen(engine.sync_engine, "begin", on_begin)
    return engine
