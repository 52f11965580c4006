"""What the admin API asks of the control plane."""

from datetime import datetime
from typing import Protocol

from llmgw.core.accounts.access import KeyRecord, Scope
from llmgw.core.fleet.catalog import Catalog, Change
from llmgw.core.fleet.snapshot import Fleet
from llmgw.core.placement.explain import Explanation
from llmgw.runtime.clock import Clock


class NewKey(Protocol):
    """A key that was just made; `key` itself is not kept."""

    @property
    def key(self) -> str:
        """The key, to be shown once."""

    @property
    def record(self) -> KeyRecord:
        """What is kept of it."""


class Status(Protocol):
    """How the control plane itself is."""

    @property
    def version(self) -> str:
        """Of the server."""

    @property
    def epoch(self) -> int:
        """Number of this server start."""

    @property
    def started_at(self) -> datetime:
        """When the server started."""

    @property
    def hold(self) -> str | None:
        """Why nothing is placed for now; None when placement goes on."""

    @property
    def catalog_problem(self) -> str | None:
        """Why the catalog file named in server.yaml was not applied at start; None when it was."""


class Operations(Protocol):
    """The verbs of an admin. Those that are not async only read what is in memory."""

    @property
    def clock(self) -> Clock:
        """Tells ages, by the same clock that the fleet is observed with."""

    def status(self) -> Status:
        """Tell how the control plane itself is."""

    def catalog(self) -> Catalog:
        """Give what is wanted."""

    def fleet(self) -> Fleet:
        """Give what is observed."""

    def explain(self, model: str) -> Explanation:
        """Say where a model stands; NotFound when no model is called so."""

    async def apply(self, data: object, *, dry_run: bool, prune: bool) -> Change:
        """Check a catalog and take it; BadInput with every problem when it cannot be used."""

    def keys(self) -> tuple[KeyRecord, ...]:
        """List every key, oldest first."""

    async def create_key(
        self, name: str, *, scope: Scope, models: tuple[str, ...] | None, expires_at: datetime | None
    ) -> NewKey:
        """Make a key."""

    async def revoke_key(self, id: int) -> KeyRecord:
        """Take a key back; NotFound when there is none of this id."""
