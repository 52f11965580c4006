"""API keys as they are kept: their digests, never the keys."""

from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import RowMapping, insert, select, update
from sqlalchemy.exc import IntegrityError

from llmgw.core.accounts.access import KeyRecord, Scope
from llmgw.core.errors import Conflict, NotFound
from llmgw.store.database import Database
from llmgw.store.tables import keys
from llmgw.store.times import from_text, to_text


class KeyStore:
    """Keeps the records of keys. Written by the operations of an admin only."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def all(self) -> tuple[KeyRecord, ...]:
        """Read every key, revoked and expired ones too, oldest first."""
        async with self._database.read() as connection:
            rows = await connection.execute(select(keys).order_by(keys.c.id))
            return tuple(_from_row(row) for row in rows.mappings())

    async def add(
        self,
        name: str,
        prefix: str,
        digest: bytes,
        scope: Scope,
        models: tuple[str, ...] | None,
        created_at: datetime,
        expires_at: datetime | None,
    ) -> KeyRecord:
        """Keep a new key.

        Args:
            models: model names it may ask for; None allows all, empty allows none.
            expires_at: None for a key that does not expire.

        Raises:
            Conflict: a key of this digest is kept already.
        """
        record = KeyRecord(
            id=0,
            name=name,
            prefix=prefix,
            digest=digest,
            scope=scope,
            models=models,
            created_at=created_at,
            expires_at=expires_at,
        )
        try:
            async with self._database.write() as connection:
                result = await connection.execute(insert(keys).values(_to_row(record)).returning(keys.c.id))
                return msgspec.structs.replace(record, id=result.scalar_one())
        except IntegrityError as error:
            raise Conflict(f"a key that begins with {prefix} exists already") from error

    async def revoke(self, id: int, at: datetime) -> KeyRecord:
        """Mark a key as revoked; one that was revoked before keeps its time.

        Raises:
            NotFound: no key has this id.
        """
        async with self._database.write() as connection:
            await connection.execute(
                update(keys)
                .where(keys.c.id == id, keys.c.revoked_at.is_(None))
                .values(revoked_at=to_text(at))
            )
            rows = await connection.execute(select(keys).where(keys.c.id == id))
            row = rows.mappings().one_or_none()
        if row is None:
            raise NotFound(f"no key has the id {id}; 'llmgw ctl keys list' shows those there are")
        return _from_row(row)


def _to_row(record: KeyRecord) -> dict[str, Any]:
    return {
        "name": record.name,
        "prefix": record.prefix,
        "digest": record.digest,
        "scope": str(record.scope),
        "models": None if record.models is None else msgspec.json.encode(record.models).decode(),
        "created_at": to_text(record.created_at),
        "expires_at": None if record.expires_at is None else to_text(record.expires_at),
        "revoked_at": None if record.revoked_at is None else to_text(record.revoked_at),
    }


def _from_row(row: RowMapping) -> KeyRecord:
    models = row["models"]
    return KeyRecord(
        id=row["id"],
        name=row["name"],
        prefix=row["prefix"],
        digest=row["digest"],
        scope=Scope(row["scope"]),
        models=None if models is None else msgspec.json.decode(models, type=tuple[str, ...]),
        created_at=from_text(row["created_at"]),
        expires_at=None if row["expires_at"] is None else from_text(row["expires_at"]),
        revoked_at=None if row["revoked_at"] is None else from_text(row["revoked_at"]),
    )
