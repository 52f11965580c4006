"""What happened to nodes: a record for people, bounded in time and in number."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import delete, func, insert, select

from llmgw.core.fleet.events import NodeEvent
from llmgw.store.database import Database
from llmgw.store.tables import node_events
from llmgw.store.times import from_text, to_text


class HistoryStore:
    """Keeps events of nodes. Written by the node history only, in batches."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, events: Sequence[NodeEvent]) -> None:
        """Keep events, all or none of them."""
        rows = [
            {"at": to_text(event.at), "node": event.node, "kind": event.kind, "text": event.text}
            for event in events
        ]
        if rows:
            async with self._database.write() as connection:
                await connection.execute(insert(node_events), rows)

    async def latest(self, most: int) -> tuple[NodeEvent, ...]:
        """Read the latest events of every node, `most` of each, oldest first."""
        place = func.row_number().over(partition_by=node_events.c.node, order_by=node_events.c.id.desc())
        ranked = select(node_events, place.label("place")).subquery()
        query = select(ranked).where(ranked.c.place <= most).order_by(ranked.c.id)
        async with self._database.read() as connection:
            rows = await connection.execute(query)
            return tuple(
                NodeEvent(at=from_text(row.at), node=row.node, kind=row.kind, text=row.text) for row in rows
            )

    async def prune(self, before: datetime, most: int) -> None:
        """Remove what is older than `before`, and the oldest beyond `most`."""
        newest = select(func.max(node_events.c.id)).scalar_subquery()
        async with self._database.write() as connection:
            await connection.execute(delete(node_events).where(node_events.c.at < to_text(before)))
            await connection.execute(delete(node_events).where(node_events.c.id <= newest - most))
