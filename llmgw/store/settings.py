"""Single values that must outlive the server."""

from sqlalchemy import select
from sqlalchemy.dialects.sqlite import insert

from llmgw.store.database import Database
from llmgw.store.tables import settings


class SettingStore:
    """Keeps single values by name."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def next_epoch(self) -> int:
        """Count one more server start; no two callers, in whatever process, ever get the same number."""
        async with self._database.write() as connection:
            row = await connection.execute(select(settings.c.value).where(settings.c.name == "epoch"))
            epoch = int(row.scalar_one_or_none() or 0) + 1
            upsert = insert(settings).values(name="epoch", value=str(epoch))
            await connection.execute(
                upsert.on_conflict_do_update(index_elements=["name"], set_={"value": upsert.excluded.value})
            )
            return epoch
