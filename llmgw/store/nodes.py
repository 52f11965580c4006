"""Which nodes have ever registered, those a starting server waits for, and what an operator wants of each."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import delete, select
from sqlalchemy.dialects.sqlite import insert

from llmgw.core.fleet.snapshot import NodeState
from llmgw.store.database import Database
from llmgw.store.tables import nodes
from llmgw.store.times import to_text


class NodeStore:
    """Keeps the ids of nodes and intents; what a node is and runs is never stored."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def known(self) -> frozenset[str]:
        """Read the ids of every node that is remembered."""
        async with self._database.read() as connection:
            return frozenset((await connection.execute(select(nodes.c.id))).scalars())

    async def remember(self, node_ids: Sequence[str], at: datetime) -> None:
        """Remember nodes, all or none; one that is known already keeps its first time."""
        rows = [{"id": node_id, "enrolled_at": to_text(at)} for node_id in node_ids]
        if rows:
            async with self._database.write() as connection:
                await connection.execute(insert(nodes).on_conflict_do_nothing(), rows)

    async def intents(self) -> dict[str, NodeState]:
        """Read what an operator wants of nodes, where that is not that they are ready."""
        async with self._database.read() as connection:
            rows = await connection.execute(
                select(nodes.c.id, nodes.c.intent).where(nodes.c.intent.is_not(None))
            )
            return {row.id: NodeState(row.intent) for row in rows}

    async def intend(self, node_id: str, intent: NodeState, at: datetime) -> None:
        """Keep what an operator wants of a node; one that is not remembered is remembered with it."""
        kept = None if intent == NodeState.READY else str(intent)
        upsert = insert(nodes).values(id=node_id, enrolled_at=to_text(at), intent=kept)
        async with self._database.write() as connection:
            await connection.execute(
                upsert.on_conflict_do_update(index_elements=["id"], set_={"intent": upsert.excluded.intent})
            )

    async def forget(self, node_id: str) -> None:
        """Remember a node no more; one that is not remembered is fine."""
        async with self._database.write() as connection:
            await connection.execute(delete(nodes).where(nodes.c.id == node_id))
