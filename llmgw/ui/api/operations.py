"""What the admin API asks of the control plane."""

from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from typing import Protocol

from llmgw.core.accounts.access import KeyRecord, Scope
from llmgw.core.fleet.catalog import Catalog, Change
from llmgw.core.fleet.collect import Collected, Stock
from llmgw.core.fleet.events import NodeEvent
from llmgw.core.fleet.logs import LogEvent, LogTail
from llmgw.core.fleet.orders import Orders, Roll
from llmgw.core.fleet.shards import ShardState
from llmgw.core.fleet.silence import Alarm
from llmgw.core.fleet.snapshot import Fleet, NodeState
from llmgw.core.placement.explain import Explanation
from llmgw.core.placement.place import Refused
from llmgw.runtime.clock import Clock
from llmgw.ui.people import People


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
    def alarm(self) -> Alarm | None:
        """That most of the fleet is silent; None when it is not."""

    @property
    def absent(self) -> tuple[str, ...]:
        """Nodes known from before that have not registered since the server started."""

    @property
    def strangers(self) -> tuple[str, ...]:
        """A sentence on each engine that is left alone, since this database does not know it."""

    @property
    def catalog_problem(self) -> str | None:
        """Why the catalog file named in server.yaml was not applied at start; None when it was."""


class Upkeep(Protocol):
    """The verbs on what runs; what cannot be done raises NotFound, Conflict or BadInput with the reason."""

    @property
    def orders(self) -> Orders:
        """Rolls and restarts, as they stand."""

    def events(self, node_id: str) -> tuple[NodeEvent, ...]:
        """Give the latest events of a node, oldest first."""

    async def set_state(self, node_id: str, state: str) -> NodeState:
        """Make a node ready, cordoned or draining."""

    async def forget(self, node_id: str) -> None:
        """Forget a node that is gone for good."""

    def clear_alarm(self) -> Alarm:
        """Take it that the nodes of the alarm are gone."""

    def restart(self, replica: str) -> ShardState:
        """Let a replica finish, stop it and start it again."""


class Logs(Protocol):
    """The logs of nodes. Whether a node is known at all is for the caller to look up (`logs.known_node`)."""

    async def tail(self, node_id: str, source: str, lines: int) -> LogTail:
        """Ask a node for the newest lines of a source; it takes 10 s at most, and what went wrong is in `error`."""

    def follow(
        self, node_id: str, source: str, lines: int, cursor: str | None = None
    ) -> AsyncIterator[LogEvent]:
        """Follow a source until the iterator is closed, or an event says that it ended.

        Args:
            lines: how many of the newest come first, when there is no cursor.
            cursor: of the last event that was seen; it goes on right there, also after restarts.
        """


class Weights(Protocol):
    """The weights of the fleet."""

    def stocks(self) -> tuple[Stock, ...]:
        """List all weights of the fleet, each place once."""

    async def collect(
        self, names: tuple[str, ...] = (), nodes: tuple[str, ...] = ()
    ) -> tuple[Collected, ...]:
        """Have removed what nobody wants, or of that these names alone, by these nodes alone; at most 10 s pass."""


class Operations(Protocol):
    """The verbs of an admin. Those that are not async only read what is in memory."""

    @property
    def clock(self) -> Clock:
        """Tells ages, by the same clock that the fleet is observed with."""

    @property
    def upkeep(self) -> Upkeep:
        """The verbs on what runs."""

    @property
    def logs(self) -> Logs:
        """The logs of nodes."""

    @property
    def people(self) -> People:
        """Who may log in."""

    @property
    def weights(self) -> Weights:
        """The weights of the fleet."""

    def status(self) -> Status:
        """Tell how the control plane itself is."""

    def catalog(self) -> Catalog:
        """Give what is wanted."""

    def fleet(self) -> Fleet:
        """Give what is observed."""

    def explain(self, model: str, data: object = None) -> Explanation:
        """Say where a model stands; with a catalog, as if that were applied.

        Raises:
            NotFound: no model is called so.
            BadInput: the catalog cannot be used; carries every problem.
        """

    def refused(self) -> Mapping[str, Refused]:
        """Give the models of which a replica fits nowhere, as the last plan found."""

    def roll(self, model: str, *, every: bool) -> Roll:
        """Replace the stale replicas of a model one by one, or `every` one; NotFound when no model is called so."""

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
