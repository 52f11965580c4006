"""Which nodes have ever registered: those a starting server waits for."""

from datetime import datetime

from sqlalchemy import select
from sqlalchemy.dialects.sqlite import insert

from llmgw.store.database import Database
from llmgw.store.tables import nodes
from llmgw.store.times import to_text


class NodeStore:
    """Keeps the ids of nodes; what a node is and runs is never stored."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def known(self) -> frozenset[str]:
        """Read the ids of every node that is remembered."""
        async with self._database.read() as connection:
            return frozenset((await connection.execute(select(nodes.c.id))).scalars())

    async def remember(self, node_id: str, at: datetime) -> None:
        """Remember a node; one that is known already keeps its first time."""
        row = {"id": node_id, "enrolled_at": to_text(at)}
        async with self._database.write() as connection:
            await connection.execute(insert(nodes).values(row).on_conflict_do_nothing())
