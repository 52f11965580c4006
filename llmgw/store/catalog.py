"""The catalog that operators applied: one row a model."""

from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import RowMapping, delete, insert, select, update

from llmgw.core.errors import StoreFailed
from llmgw.core.fleet.catalog import Catalog, Model
from llmgw.store.database import Database
from llmgw.store.tables import models
from llmgw.store.times import from_text, to_text


class CatalogStore:
    """Keeps the desired models. Written by the operations of an admin only."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def load(self) -> Catalog:
        """Read the whole catalog, models in the order of their names."""
        async with self._database.read() as connection:
            rows = await connection.execute(select(models.c.name, models.c.model).order_by(models.c.name))
            return Catalog(models=tuple(_from_row(row) for row in rows.mappings()))

    async def created(self) -> dict[str, datetime]:
        """Read when each model entered the catalog, by its name."""
        async with self._database.read() as connection:
            rows = await connection.execute(select(models.c.name, models.c.created_at))
            return {row.name: from_text(row.created_at) for row in rows}

    async def replace(self, catalog: Catalog, at: datetime) -> None:
        """Make the stored catalog this one, in one transaction; models that stay keep the time they entered."""
        wanted = {row["name"]: row for row in (_to_row(model, at) for model in catalog.models)}
        async with self._database.write() as connection:
            stored = {
                row.name: row.model for row in await connection.execute(select(models.c.name, models.c.model))
            }
            for name in stored.keys() - wanted.keys():
                await connection.execute(delete(models).where(models.c.name == name))
            for name, row in wanted.items():
                if name not in stored:
                    await connection.execute(insert(models).values(row))
                elif stored[name] != row["model"]:
                    changed = {"model": row["model"], "changed_at": row["changed_at"]}
                    await connection.execute(update(models).where(models.c.name == name).values(changed))


def _to_row(model: Model, at: datetime) -> dict[str, Any]:
    return {
        "name": model.name,
        "model": msgspec.json.encode(model).decode(),
        "created_at": to_text(at),
        "changed_at": to_text(at),
    }


def _from_row(row: RowMapping) -> Model:
    try:
        return msgspec.json.decode(row["model"], type=Model)
    except msgspec.DecodeError as error:
        raise StoreFailed(
            f"the stored model {row['name']!r} cannot be read: {error}; another version of llmgw may have written it"
        ) from error
