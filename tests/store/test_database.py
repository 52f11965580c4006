import asyncio
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncConnection

from llmgw.core.errors import StoreFailed
from llmgw.runtime.resources import packaged
from llmgw.store.database import Database
from llmgw.store.failures import in_words
from llmgw.store.nodes import NodeStore
from llmgw.store.preparing import newest_version
from llmgw.store.settings import SettingStore
from llmgw.store.tables import metadata

AT = datetime(2030, 1, 1, tzinfo=UTC)


def more_migrations(folder: Path, body: str) -> Path:
    """Copy the packaged migrations and add one whose upgrade has this body."""
    target = folder / "migrations"
    shutil.copytree(packaged("store/migrations"), target)
    script = f"from alembic import op\nrevision = '9000'\ndown_revision = '{newest_version(target)}'\ndef upgrade():\n"
    (target / "versions" / "9000_more.py").write_text(script + body)
    return target


def rows(path: Path, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(query).fetchall()


async def pragma(connection: AsyncConnection, name: str) -> object:
    return (await connection.exec_driver_sql(f"PRAGMA {name}")).scalar_one()


async def test_the_folder_and_the_file_are_made_for_the_servers_user_alone(tmp_path: Path) -> None:
    database = await Database.open(tmp_path / "a" / "b" / "llmgw.db")
    await database.close()

    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o750
    assert (tmp_path / "a" / "b" / "llmgw.db").stat().st_mode & 0o777 == 0o600


async def test_connections_keep_foreign_keys_write_ahead_and_whole_writes(database: Database) -> None:
    async with database.write() as connection:
        found = [await pragma(connection, name) for name in ("foreign_keys", "journal_mode", "synchronous")]

    assert found == [1, "wal", 2]


async def test_the_migrations_make_the_tables_that_queries_name(database: Database) -> None:
    engine = create_engine(f"sqlite+pysqlite:///{database.path}")

    with engine.connect() as connection:
        differences = compare_metadata(MigrationContext.configure(connection), metadata)
    engine.dispose()

    assert differences == []


async def test_what_a_block_wrote_is_gone_when_it_raises(database: Database) -> None:
    async def write_and_fail() -> None:
        async with database.write() as connection:
            await connection.exec_driver_sql("INSERT INTO nodes (id, enrolled_at) VALUES ('a', 'x')")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await write_and_fail()

    assert await NodeStore(database).known() == frozenset()


async def test_what_a_block_wrote_is_gone_when_it_is_cancelled_and_the_next_write_goes_on(
    database: Database,
) -> None:
    entered = asyncio.Event()

    async def write_and_wait() -> None:
        async with database.write() as connection:
            await connection.exec_driver_sql("INSERT INTO nodes (id, enrolled_at) VALUES ('a', 'x')")
            entered.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(write_and_wait())
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    await NodeStore(database).remember(["b"], AT)

    assert await NodeStore(database).known() == {"b"}


async def test_a_reader_sees_one_state_while_another_block_writes_and_waits_for_nobody(
    database: Database,
) -> None:
    await NodeStore(database).remember(["a"], AT)

    async with database.read() as reading:
        before = (await reading.exec_driver_sql("SELECT count(*) FROM nodes")).scalar_one()
        await NodeStore(database).remember(["b"], AT)
        after = (await reading.exec_driver_sql("SELECT count(*) FROM nodes")).scalar_one()

    assert (before, after) == (1, 1)
    assert await NodeStore(database).known() == {"a", "b"}


async def test_a_reading_block_cannot_write(database: Database) -> None:
    with pytest.raises(StoreFailed, match="may only be read"):
        async with database.read() as connection:
            await connection.exec_driver_sql("INSERT INTO nodes (id, enrolled_at) VALUES ('a', 'x')")


async def test_more_readers_than_connections_take_turns(database: Database) -> None:
    store = NodeStore(database)
    await store.remember(["a"], AT)

    found = await asyncio.gather(*(store.known() for _ in range(50)))

    assert set(found) == {frozenset({"a"})}


async def test_opening_again_changes_nothing_and_makes_no_copy(tmp_path: Path) -> None:
    for _ in range(2):
        database = await Database.open(tmp_path / "llmgw.db")
        await NodeStore(database).remember(["a"], AT)
        await database.close()

    assert os.listdir(tmp_path) == ["llmgw.db"]


async def test_a_schema_that_is_behind_is_copied_and_migrated(tmp_path: Path) -> None:
    path = tmp_path / "llmgw.db"
    database = await Database.open(path)
    await NodeStore(database).remember(["a"], AT)
    await database.close()
    migrations = more_migrations(tmp_path, "    op.execute('ALTER TABLE nodes ADD COLUMN note TEXT')\n")

    database = await Database.open(path, migrations=migrations)
    await database.close()

    assert rows(path, "SELECT id, note FROM nodes") == [("a", None)]
    assert rows(path, "SELECT version_num FROM alembic_version") == [("9000",)]
    copy = tmp_path / "llmgw.db.before-9000"
    assert rows(copy, "SELECT version_num FROM alembic_version") != [("9000",)]
    assert rows(copy, "SELECT id FROM nodes") == [("a",)]
    assert copy.stat().st_mode & 0o777 == 0o600


async def test_a_migration_that_fails_leaves_the_database_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "llmgw.db"
    database = await Database.open(path)
    await NodeStore(database).remember(["a"], AT)
    await database.close()
    body = "    op.execute('CREATE TABLE half (x)')\n    op.execute('DELETE FROM nodes')\n    op.execute('nonsense')\n"
    migrations = more_migrations(tmp_path, body)

    with pytest.raises(StoreFailed, match="syntax error"):
        await Database.open(path, migrations=migrations)

    assert rows(path, "SELECT id FROM nodes") == [("a",)]
    assert rows(path, "SELECT name FROM sqlite_master WHERE name = 'half'") == []
    database = await Database.open(path)
    assert await NodeStore(database).known() == {"a"}
    await database.close()


async def test_a_database_of_a_newer_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "llmgw.db"
    database = await Database.open(path, migrations=more_migrations(tmp_path, "    pass\n"))
    await database.close()

    with pytest.raises(
        StoreFailed, match=r"is of schema 9000, and this version knows up to 0\d+: a newer llmgw"
    ):
        await Database.open(path)

    assert rows(path, "SELECT version_num FROM alembic_version") == [("9000",)]


async def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "llmgw.db"
    path.write_text("These are words, not a database; there are more than a hundred of them in spirit. " * 20)
    before = path.read_bytes()

    with pytest.raises(StoreFailed, match=r"llmgw\.db is not an SQLite database; move that file away"):
        await Database.open(path)

    assert path.read_bytes() == before


async def test_a_database_of_another_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "llmgw.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE theirs (x)")

    with pytest.raises(StoreFailed, match="is not one of llmgw"):
        await Database.open(path)

    assert rows(path, "SELECT name FROM sqlite_master") == [("theirs",)]


async def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(StoreFailed, match=r"the data folder .*/file/data cannot be made: Not a directory"):
        await Database.open(tmp_path / "file" / "data" / "llmgw.db")


async def test_a_folder_in_the_place_of_the_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "llmgw.db").mkdir()

    with pytest.raises(StoreFailed, match=r"llmgw\.db cannot be opened for writing: Is a directory"):
        await Database.open(tmp_path / "llmgw.db")


async def test_a_database_that_another_process_holds_is_reported_as_locked(tmp_path: Path) -> None:
    database = await Database.open(tmp_path / "llmgw.db", busy_timeout_s=0.01)

    with closing(sqlite3.connect(database.path)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreFailed, match="is locked by another process"):
            await NodeStore(database).remember(["a"], AT)

    await NodeStore(database).remember(["a"], AT)
    await database.close()


async def test_a_full_disk_is_reported_and_does_not_end_the_database(database: Database) -> None:
    async with database.write() as connection:
        pages = await pragma(connection, "page_count")
    async with database.write() as connection:
        await pragma(connection, f"max_page_count = {pages}")

    with pytest.raises(StoreFailed, match="cannot grow: the disk is full"):
        await NodeStore(database).remember(["x" * 100_000], AT)

    await NodeStore(database).remember(["small"], AT)
    assert await NodeStore(database).known() == {"small"}


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (sqlite3.SQLITE_READONLY_DIRECTORY, "may only be read"),
        (sqlite3.SQLITE_CANTOPEN_ISDIR, "cannot be opened"),
        (sqlite3.SQLITE_CORRUPT, "is damaged"),
        (sqlite3.SQLITE_IOERR_FSYNC, "the disk reports an error"),
        (sqlite3.SQLITE_ERROR, "failed: no such table: x"),
    ],
)
def test_each_error_code_says_what_to_do(code: int, words: str) -> None:
    error = sqlite3.OperationalError("no such table: x")
    error.sqlite_errorcode = code

    assert words in str(in_words(Path("/srv/llmgw.db"), error))


COUNT_STARTS = """
import asyncio, sys
from llmgw.store.database import Database
from llmgw.store.settings import SettingStore

async def main():
    database = await Database.open(sys.argv[1])
    print(*[await SettingStore(database).next_epoch() for _ in range(20)])
    await database.close()

asyncio.run(main())
"""


@pytest.mark.slow
def test_processes_that_open_one_new_database_together_never_count_the_same_start(tmp_path: Path) -> None:
    command = [sys.executable, "-c", COUNT_STARTS, str(tmp_path / "data" / "llmgw.db")]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]

    said = [process.communicate(timeout=60)[0] for process in processes]

    assert [process.returncode for process in processes] == [0, 0, 0]
    assert sorted(int(word) for text in said for word in text.split()) == list(range(1, 61))


@pytest.mark.slow
async def test_a_start_at_the_newest_schema_does_not_import_alembic(tmp_path: Path) -> None:
    database = await Database.open(tmp_path / "llmgw.db")
    await database.close()
    script = f"{COUNT_STARTS}\nassert 'alembic' not in sys.modules"

    ended = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", script, str(database.path)], capture_output=True, timeout=60
    )

    assert (ended.returncode, ended.stderr) == (0, b"")


async def test_epochs_grow_over_reopening(tmp_path: Path) -> None:
    epochs = []
    for _ in range(3):
        database = await Database.open(tmp_path / "llmgw.db")
        epochs.append(await SettingStore(database).next_epoch())
        await database.close()

    assert epochs == [1, 2, 3]
