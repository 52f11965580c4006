"""The verbs of an admin over a catalog, a fleet and keys in memory."""

from datetime import datetime
from typing import NamedTuple

from fakes.clock import FakeClock
from fakes.logs import FakeLogs
from fakes.nodes import a_shard
from fakes.user_store import a_people

from llmgw import __version__
from llmgw.core.accounts.access import KEY_PREFIX, KeyRecord, Scope, digest_of
from llmgw.core.errors import BadInput, NotFound
from llmgw.core.fleet.catalog import Catalog, Change, compare, merge, read_catalog
from llmgw.core.fleet.collect import Collected, Stock, stocks
from llmgw.core.fleet.events import NodeEvent
from llmgw.core.fleet.orders import Orders, Roll, begin_roll
from llmgw.core.fleet.shards import ShardState
from llmgw.core.fleet.silence import Alarm
from llmgw.core.fleet.snapshot import Fleet, NodeState
from llmgw.core.placement.explain import Explanation, explain
from llmgw.core.placement.place import Refused, place
from llmgw.core.placement.rooms import rooms_of


class FakeNewKey(NamedTuple):
    key: str
    record: KeyRecord


class FakeStatus(NamedTuple):
    version: str
    epoch: int
    started_at: datetime
    hold: str | None
    catalog_problem: str | None
    alarm: Alarm | None = None
    absent: tuple[str, ...] = ()
    strangers: tuple[str, ...] = ()


class FakeUpkeep:
    """Notes what it is told; `failure` is raised by whatever is told next."""

    def __init__(self) -> None:
        self.orders = Orders()
        self.known: dict[str, tuple[NodeEvent, ...]] = {}
        self.told: list[tuple[str, ...]] = []
        self.failure: Exception | None = None

    def events(self, node_id: str) -> tuple[NodeEvent, ...]:
        return self.known.get(node_id, ())

    async def set_state(self, node_id: str, state: str) -> NodeState:
        self._note("state", node_id, state)
        return NodeState(state)

    async def forget(self, node_id: str) -> None:
        self._note("forget", node_id)

    def clear_alarm(self) -> Alarm:
        self._note("clear")
        return Alarm(since=FakeClock().start, nodes=("n1", "n2"), fleet=3)

    def restart(self, replica: str) -> ShardState:
        self._note("restart", replica)
        return a_shard(generation=(3, 1)) if replica == "gemma.0" else a_shard("org/gemma", generation=(3, 1))

    def _note(self, *told: str) -> None:
        if self.failure is not None:
            raise self.failure
        self.told.append(told)


class FakeWeights:
    """Lists what the fleet holds; collecting answers `outcome` and notes what was asked for."""

    def __init__(self, operations: "FakeOperations") -> None:
        self._operations = operations
        self.outcome: tuple[Collected, ...] = ()
        self.asked: list[tuple[tuple[str, ...], tuple[str, ...]]] = []

    def stocks(self) -> tuple[Stock, ...]:
        return stocks(self._operations.wanted, self._operations.observed)

    async def collect(
        self, names: tuple[str, ...] = (), nodes: tuple[str, ...] = ()
    ) -> tuple[Collected, ...]:
        self.asked.append((names, nodes))
        return self.outcome


class FakeOperations:
    """Takes what it is given; `failure` is raised whenever the fleet is read or a catalog applied."""

    def __init__(self, catalog: Catalog | None = None, fleet: Fleet | None = None) -> None:
        self.reset(catalog, fleet)

    def reset(self, catalog: Catalog | None = None, fleet: Fleet | None = None) -> None:
        """Begin anew, under whatever serves it."""
        self.clock = FakeClock()
        self.wanted = catalog or Catalog()
        self.observed = fleet or Fleet()
        self.upkeep = FakeUpkeep()
        self.logs = FakeLogs()
        self.people = a_people(self.clock)
        self.weights = FakeWeights(self)
        self.alarm: Alarm | None = None
        self.absent: tuple[str, ...] = ()
        self.rolled: list[tuple[str, bool]] = []
        self.hold: str | None = None
        self.catalog_problem: str | None = None
        self.records: list[KeyRecord] = []
        self.failure: Exception | None = None

    def status(self) -> FakeStatus:
        own = self.hold, self.catalog_problem, self.alarm, self.absent
        return FakeStatus(__version__, 3, self.clock.start, *own)

    def catalog(self) -> Catalog:
        return self.wanted

    def fleet(self) -> Fleet:
        if self.failure is not None:
            raise self.failure
        return self.observed

    def explain(self, model: str, data: object = None) -> Explanation:
        catalog = self.wanted
        if data is not None:
            given, problems = read_catalog(data)
            if given is None:
                raise BadInput("the catalog cannot be used", problems)
            catalog = given
        found = catalog.model(model)
        if found is None:
            raise NotFound(f"no model is called {model!r}")
        return explain(found, self.observed, now=self.clock.now(), at=self.clock.at(), hold=self.hold)

    def refused(self) -> dict[str, Refused]:
        rooms = rooms_of(self.observed)
        choices = [place(model, rooms) for model in self.wanted.models]
        return {choice.model: choice for choice in choices if isinstance(choice, Refused)}

    def roll(self, model: str, *, every: bool) -> Roll:
        found = self.wanted.model(model)
        if found is None:
            raise NotFound(f"no model is called {model!r}")
        self.rolled.append((model, every))
        return begin_roll(found, self.observed, every=every)

    async def apply(self, data: object, *, dry_run: bool, prune: bool) -> Change:
        catalog, problems = read_catalog(data, engines=["llama.cpp"], beside=None if prune else self.wanted)
        if catalog is None:
            raise BadInput("the catalog cannot be used", problems)
        if self.failure is not None:
            raise self.failure
        change = compare(self.wanted, catalog, prune=prune)
        if not dry_run:
            self.wanted = merge(self.wanted, catalog, prune=prune)
        return change

    def keys(self) -> tuple[KeyRecord, ...]:
        return tuple(self.records)

    async def create_key(
        self, name: str, *, scope: Scope, models: tuple[str, ...] | None, expires_at: datetime | None
    ) -> FakeNewKey:
        key = f"{KEY_PREFIX}{len(self.records):04d}-{'x' * 30}"
        record = KeyRecord(
            id=len(self.records) + 1,
            name=name,
            prefix=key[:13],
            digest=digest_of(key),
            scope=scope,
            models=models,
            created_at=self.clock.at(),
            expires_at=expires_at,
        )
        self.records.append(record)
        return FakeNewKey(key, record)

    async def revoke_key(self, id: int) -> KeyRecord:
        for i, record in enumerate(self.records):
            if record.id == id:
                fields = {name: getattr(record, name) for name in record.__struct_fields__}
                self.records[i] = KeyRecord(**fields | {"revoked_at": self.clock.at()})
                return self.records[i]
        raise NotFound(f"no key has the id {id}")
