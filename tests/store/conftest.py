from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from llmgw.store.database import Database


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    database = await Database.open(tmp_path / "llmgw.db")
    yield database
    await database.close()
