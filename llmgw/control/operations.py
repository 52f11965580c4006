"""The verbs of an admin: check, write, wake. Every surface calls these and nothing below them.

Sole writer of what is desired, and of the keys. What is written goes to the store first and to memory after that, one
change at a time; a change that the store did not take never happened.
"""

import asyncio
import logging
import secrets
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Protocol

import msgspec

from llmgw.control.desired import Desired
from llmgw.control.fleet import ObservedFleet
from llmgw.control.logs import Logs
from llmgw.control.people import People
from llmgw.control.reconciler import Reconciler
from llmgw.control.upkeep import Upkeep
from llmgw.control.weights import Weights
from llmgw.core.accounts.access import (
    KEY_PREFIX,
    Denied,
    KeyRecord,
    Keyring,
    Scope,
    digest_of,
    find_key,
)
from llmgw.core.errors import BadInput, NotFound, Problem
from llmgw.core.fleet.catalog import Catalog, Change, Model, compare, merge, read_catalog
from llmgw.core.fleet.orders import Roll
from llmgw.core.fleet.serving import serving_shards
from llmgw.core.fleet.silence import Alarm
from llmgw.core.fleet.snapshot import Fleet
from llmgw.core.placement.explain import Explanation, explain
from llmgw.core.placement.place import Refused
from llmgw.core.shape import nearest
from llmgw.engines.engine import Engine
from llmgw.runtime.clock import Clock

log = logging.getLogger(__name__)

_SHOWN_OF_KEY = len(KEY_PREFIX) + 4
_LONGEST_KEY_NAME = 96


class CatalogStore(Protocol):
    """Where the catalog is kept."""

    async def load(self) -> Catalog:
        """Read the whole catalog."""

    async def replace(self, catalog: Catalog, at: datetime) -> None:
        """Make the stored catalog this one, whole or not at all."""

    async def created(self) -> dict[str, datetime]:
        """Read when each model entered the catalog."""


class KeyStore(Protocol):
    """Where the records of keys are kept."""

    async def all(self) -> tuple[KeyRecord, ...]:
        """Read every key, revoked and expired ones too, oldest first."""

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
        """Keep a new key."""

    async def revoke(self, id: int, at: datetime) -> KeyRecord:
        """Mark a key as revoked; NotFound when there is none of this id."""


class NewKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key that was just made; `key` is shown once and not kept."""

    key: str
    record: KeyRecord


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """How the control plane is.

    Attributes:
        epoch: number of this server start.
        hold: why nothing is placed for now; None when placement goes on.
        alarm: most of the fleet is silent; None when it is not.
        absent: nodes known from before that have not registered since the server started.
        strangers: a sentence on each engine that is left alone, since this database does not know it.
        catalog_problem: why the catalog file named in server.yaml was not applied at start; None when it was.
        nodes: how many there are in each state.
        models_wanted: models that should run at all.
        models_ready: those of them that can be asked.
        replicas: how many there are in each phase.
    """

    version: str
    epoch: int
    started_at: datetime
    hold: str | None = None
    alarm: Alarm | None = None
    absent: tuple[str, ...] = ()
    strangers: tuple[str, ...] = ()
    catalog_problem: str | None = None
    nodes: dict[str, int] = {}
    models_wanted: int = 0
    models_ready: int = 0
    replicas: dict[str, int] = {}


class Operations:
    """The control plane as an admin uses it. Verbs that are not async only read what is in memory."""

    def __init__(
        self,
        desired: Desired,
        fleet: ObservedFleet,
        reconciler: Reconciler,
        upkeep: Upkeep,
        logs: Logs,
        people: People,
        *,
        catalog_store: CatalogStore,
        key_store: KeyStore,
        engines: Mapping[str, Engine],
        clock: Clock,
        version: str,
        epoch: int,
        set_keys: Callable[[Keyring], None],
        weights: Weights,
    ) -> None:
        """Take what the verbs act on.

        Args:
            set_keys: takes the whole keyring each time that it changed.
        """
        self.clock = clock
        self.upkeep = upkeep
        self.logs = logs
        self.people = people
        self.weights = weights
        self.catalog_problem: str | None = None
        self._desired = desired
        self._fleet = fleet
        self._reconciler = reconciler
        self._catalog_store = catalog_store
        self._key_store = key_store
        self._engines = engines
        self._version = version
        self._epoch = epoch
        self._started_at = clock.at()
        self._set_keys = set_keys
        self._keys: dict[int, KeyRecord] = {}
        self._keyring: Keyring = {}
        self._writing = asyncio.Lock()

    # the catalog

    def catalog(self) -> Catalog:
        """Give what is wanted."""
        return self._desired.catalog

    async def apply(self, data: object, *, dry_run: bool, prune: bool) -> Change:
        """Check a catalog and take it.

        Args:
            data: plain data, from YAML or JSON.
            dry_run: only say what would change.
            prune: also remove the models that `data` does not name.

        Raises:
            BadInput: it cannot be used; carries every problem, and nothing was changed.
            StoreFailed: it could not be written, and nothing was changed.
        """
        async with self._writing:
            stored = self._desired.catalog
            wanted = self._checked(data, stored, prune=prune)
            change = compare(stored, wanted, prune=prune)
            if not dry_run and (change.created or change.changed or change.removed):
                merged, at = merge(stored, wanted, prune=prune), self.clock.at()
                await self._catalog_store.replace(merged, at)
                self._desired.take(merged, at)
                log.info("the catalog was changed: %s", _change_text(change))
            return change

    def _checked(self, data: object, stored: Catalog, *, prune: bool) -> Catalog:
        wanted, problems = read_catalog(data, self._engines, beside=None if prune else stored)
        if wanted is not None:
            problems = self._engine_problems(wanted)
        if wanted is None or problems:
            count = "a problem" if len(problems) == 1 else f"{len(problems)} problems"
            raise BadInput(f"the catalog has {count}; nothing was changed", problems)
        return wanted

    def _engine_problems(self, wanted: Catalog) -> list[Problem]:
        return [
            Problem(("models", i, "profiles", j), problem)
            for i, model in enumerate(wanted.models)
            for j, profile in enumerate(model.profiles)
            if (problem := self._engines[profile.engine].profile_problem(profile)) is not None
        ]

    # what is observed

    def fleet(self) -> Fleet:
        """Give what is observed."""
        return self._fleet.value

    def explain(self, model: str, data: object = None) -> Explanation:
        """Say where a model stands, by its name or an alias.

        Args:
            data: a catalog, plain data from YAML or JSON, that counts beside the stored one as if it were applied;
                nothing is changed. None for the stored one alone.

        Raises:
            NotFound: no model is called so.
            BadInput: the catalog cannot be used; carries every problem.
        """
        catalog = self._desired.catalog
        if data is not None:
            catalog = merge(catalog, self._checked(data, catalog, prune=False), prune=False)
        hold = self._reconciler.hold
        return explain(
            _found(model, catalog),
            self._fleet.value,
            now=self.clock.now(),
            at=self.clock.at(),
            hold=hold.text if hold else None,
            needs=self._reconciler.needs_of(catalog),
        )

    def refused(self) -> Mapping[str, Refused]:
        """Give the models of which a replica fits nowhere, as the last plan found."""
        return self._reconciler.refused

    def roll(self, model: str, *, every: bool) -> Roll:
        """Replace the stale replicas of a model one by one, or `every` one.

        Raises:
            NotFound: no model is called so.
            Conflict: it is being rolled already.
        """
        return self.upkeep.roll(self._find(model), every=every)

    def _find(self, name: str) -> Model:
        return _found(name, self._desired.catalog)

    def status(self) -> Status:
        """Tell how the control plane is."""
        fleet, hold = self._fleet.value, self._reconciler.hold
        serving = serving_shards(fleet)
        wanted = [model.name for model in self._desired.catalog.models if model.replicas]
        shards = [shard for node in fleet.nodes.values() for shard in node.shards.values()]
        return Status(
            version=self._version,
            epoch=self._epoch,
            started_at=self._started_at,
            hold=hold.text if hold else None,
            alarm=fleet.silence.alarm,
            absent=self.upkeep.absent(),
            strangers=tuple(one.text(self._epoch) for one in self._reconciler.strangers),
            catalog_problem=self.catalog_problem,
            nodes=dict(Counter(str(node.state) for node in fleet.nodes.values())),
            models_wanted=len(wanted),
            models_ready=sum(name in serving for name in wanted),
            replicas=dict(Counter(str(shard.phase) for shard in shards if shard.rank == 0)),
        )

    # keys

    async def load_keys(self) -> None:
        """Read every key into memory; until then none opens a door.

        Raises:
            StoreFailed: they cannot be read.
        """
        self._keep({record.id: record for record in await self._key_store.all()})

    def keys(self) -> tuple[KeyRecord, ...]:
        """List every key, oldest first."""
        return tuple(self._keys.values())

    def find_admin_key(self, key: bytes | None) -> KeyRecord | Denied:
        """Find the record of a presented key, or say why it opens no door; its scope is for the door to check."""
        return find_key(self._keyring, key, self.clock.at())

    async def create_key(
        self, name: str, *, scope: Scope, models: tuple[str, ...] | None, expires_at: datetime | None
    ) -> NewKey:
        """Make a key.

        Args:
            models: model names it may ask for; None allows all.
            expires_at: None for a key that does not expire.

        Raises:
            BadInput: the name or the time cannot be used.
            StoreFailed: it could not be written, and there is no such key.
        """
        at = self.clock.at()
        _check_key(name, expires_at, at)
        key = KEY_PREFIX + secrets.token_urlsafe(32)
        async with self._writing:
            record = await self._key_store.add(
                name=name,
                prefix=key[:_SHOWN_OF_KEY],
                digest=digest_of(key),
                scope=scope,
                models=models,
                created_at=at,
                expires_at=expires_at,
            )
            self._keep(self._keys | {record.id: record})
        log.info("key %d (%s, %s, scope %s) was made", record.id, name, record.prefix, scope)
        return NewKey(key=key, record=record)

    async def revoke_key(self, id: int) -> KeyRecord:
        """Take a key back; requests with it are refused from now on.

        Raises:
            NotFound: there is none of this id.
            StoreFailed: it could not be written, and the key is as good as before.
        """
        async with self._writing:
            record = await self._key_store.revoke(id, self.clock.at())
            self._keep(self._keys | {record.id: record})
        log.info("key %d (%s, %s) was revoked", record.id, record.name, record.prefix)
        return record

    def _keep(self, keys: dict[int, KeyRecord]) -> None:
        self._keys = keys
        self._keyring = {record.digest: record for record in keys.values()}
        self._set_keys(self._keyring)


def _check_key(name: str, expires_at: datetime | None, at: datetime) -> None:
    problems = []
    if not 0 < len(name) <= _LONGEST_KEY_NAME or not name.isprintable() or name != name.strip():
        wanted = f"wanted 1 to {_LONGEST_KEY_NAME} printable characters without space around them"
        problems.append(Problem(("name",), f"{wanted}, found {name[:_LONGEST_KEY_NAME]!r}"))
    if expires_at is not None and expires_at <= at:
        problems.append(
            Problem(("expires_at",), f"wanted a time to come, found {expires_at:%Y-%m-%d %H:%M} UTC")
        )
    if problems:
        raise BadInput("the key cannot be made", problems)


def _change_text(change: Change) -> str:
    parts = [("created", change.created), ("changed", change.changed), ("removed", change.removed)]
    return "; ".join(f"{verb} {', '.join(names)}" for verb, names in parts if names)


def _found(name: str, catalog: Catalog) -> Model:
    found = catalog.model(name) or next((m for m in catalog.models if name in m.aliases), None)
    if found is None:
        known = nearest(name, [m.name for m in catalog.models]) if catalog.models else "the catalog is empty"
        raise NotFound(f"no model is called {name!r}; {known}")
    return found
