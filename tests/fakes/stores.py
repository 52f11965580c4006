"""Stores in memory; while `broken` is set, each refuses as a full disk would."""

from collections.abc import Callable, Sequence
from datetime import datetime

from llmgw.core.accounts.access import KeyRecord, Scope
from llmgw.core.errors import NotFound, StoreFailed
from llmgw.core.fleet.catalog import Catalog
from llmgw.core.fleet.events import NodeEvent
from llmgw.core.fleet.snapshot import NodeState


class _Fragile:
    def __init__(self) -> None:
        self.broken = False

    def check(self) -> None:
        if self.broken:
            raise StoreFailed("the database is full")


class MemoryCatalogStore(_Fragile):
    def __init__(self, catalog: Catalog | None = None) -> None:
        super().__init__()
        self.catalog = catalog or Catalog()
        self.writes = 0

    async def load(self) -> Catalog:
        return self.catalog

    async def replace(self, catalog: Catalog, at: datetime) -> None:
        self.check()
        self.catalog = catalog
        self.writes += 1

    async def created(self) -> dict[str, datetime]:
        return {}


class MemoryKeyStore(_Fragile):
    def __init__(self) -> None:
        super().__init__()
        self.records: dict[int, KeyRecord] = {}

    async def all(self) -> tuple[KeyRecord, ...]:
        return tuple(self.records.values())

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
        self.check()
        record = KeyRecord(
            id=len(self.records) + 1,
            name=name,
            prefix=prefix,
            digest=digest,
            scope=scope,
            models=models,
            created_at=created_at,
            expires_at=expires_at,
        )
        self.records[record.id] = record
        return record

    async def revoke(self, id: int, at: datetime) -> KeyRecord:
        self.check()
        if id not in self.records:
            raise NotFound(f"no key has the id {id}")
        fields = {name: getattr(self.records[id], name) for name in KeyRecord.__struct_fields__}
        self.records[id] = KeyRecord(**fields | {"revoked_at": at})
        return self.records[id]


class MemoryNodeStore(_Fragile):
    """Does `meanwhile` while it forgets a node."""

    def __init__(self, *known: str) -> None:
        super().__init__()
        self.nodes = list(known)
        self.writes = 0
        self.wanted: dict[str, NodeState] = {}
        self.meanwhile: Callable[[], None] = lambda: None

    async def known(self) -> frozenset[str]:
        return frozenset(self.nodes)

    async def remember(self, node_ids: Sequence[str], at: datetime) -> None:
        self.check()
        self.nodes += node_ids
        self.writes += 1

    async def intend(self, node_id: str, intent: NodeState, at: datetime) -> None:
        self.check()
        self.wanted[node_id] = intent

    async def forget(self, node_id: str) -> None:
        self.check()
        self.meanwhile()
        self.nodes = [known for known in self.nodes if known != node_id]


class MemoryHistoryStore(_Fragile):
    def __init__(self) -> None:
        super().__init__()
        self.events: list[NodeEvent] = []
        self.batches = 0
        self.pruned: list[tuple[datetime, int]] = []

    async def add(self, events: Sequence[NodeEvent]) -> None:
        self.check()
        self.events += events
        self.batches += 1

    async def prune(self, before: datetime, most: int) -> None:
        self.pruned.append((before, most))
