"""The most memory that engines were seen to hold, so that a need once measured outlives a restart."""

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.dialects.sqlite import insert

from llmgw.core.fleet.peaks import Peak
from llmgw.store.database import Database
from llmgw.store.tables import peaks
from llmgw.store.times import from_text, to_text

MOST_KEPT = 10_000


class PeakStore:
    """Keeps measured peaks. Written by the control plane's peaks only, in batches."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def load(self) -> tuple[Peak, ...]:
        """Read the latest peaks, as many as are kept."""
        query = select(peaks).order_by(peaks.c.at.desc()).limit(MOST_KEPT)
        async with self._database.read() as connection:
            return tuple(
                Peak(
                    model=row.model,
                    fingerprint=row.fingerprint,
                    engine=row.engine,
                    version=row.version,
                    peak_bytes=row.peak_bytes,
                    at=from_text(row.at),
                )
                for row in await connection.execute(query)
            )

    async def keep(self, found: Sequence[Peak]) -> None:
        """Keep peaks, all or none of them, in place of earlier ones of the same profile and version."""
        if not found:
            return
        rows = [
            {
                "fingerprint": peak.fingerprint,
                "version": peak.version,
                "model": peak.model,
                "engine": peak.engine,
                "peak_bytes": peak.peak_bytes,
                "at": to_text(peak.at),
            }
            for peak in found
        ]
        upsert = insert(peaks)
        changes = {name: upsert.excluded[name] for name in ("model", "engine", "peak_bytes", "at")}
        stale = select(peaks.c.at).order_by(peaks.c.at.desc()).offset(MOST_KEPT).limit(1).scalar_subquery()
        async with self._database.write() as connection:
            await connection.execute(
                upsert.on_conflict_do_update(index_elements=["fingerprint", "version"], set_=changes), rows
            )
            # Without a bound every edit of a profile would stay for ever. Without rows beyond it, this removes none.
            await connection.execute(peaks.delete().where(peaks.c.at <= stale))
