"""Replicas as rows of a table, one engine process each."""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from llmgw.core.fleet.catalog import Catalog
from llmgw.core.fleet.orders import Orders
from llmgw.core.fleet.shards import Phase
from llmgw.core.fleet.snapshot import Fleet
from llmgw.ui.present.downloads import Download, download
from llmgw.ui.present.replicas import ReplicaView, replica_views

_SILENT = ("unreachable", "lost")


class ReplicaRow(msgspec.Struct, frozen=True, kw_only=True):
    """One engine process.

    Attributes:
        key: tells it from every other one, copies of it on other nodes too.
        since: when its phase began.
        notes: what else is to be known of it, in a few words each.
        failure: why it failed and when it is tried again; None when it has not failed.
        tail: the last lines of its output, when it failed.
        can_restart: a restart means something for it.
    """

    key: str
    id: str
    shard: str
    model: str
    node: str
    phase: str
    since: datetime | None
    profile: str
    engine: str
    address: str
    generation: str
    notes: tuple[str, ...]
    failure: str | None
    tail: tuple[str, ...]
    download: Download | None
    can_restart: bool


def replica_rows(
    catalog: Catalog, fleet: Fleet, *, now: float, at: datetime, orders: Orders
) -> tuple[ReplicaRow, ...]:
    """Show every engine process, in the order of models, replicas and nodes."""
    views = replica_views(catalog, fleet, now=now, at=at, orders=orders)
    return tuple(_row(view, fleet) for view in views)


def failed_first(rows: Iterable[ReplicaRow]) -> tuple[ReplicaRow, ...]:
    """Put what needs somebody first: failed ones, then those on their way, then those that serve."""
    order = {"failed": 0, "fetching": 1, "starting": 2, "pending": 3, "draining": 4}
    return tuple(sorted(rows, key=lambda row: order.get(row.phase, 9)))


def _row(view: ReplicaView, fleet: Fleet) -> ReplicaRow:
    shard = fleet.nodes[view.node].shards[view.shard]
    return ReplicaRow(
        key=f"{view.shard}@{view.node}",
        id=view.id,
        shard=view.shard,
        model=view.model,
        node=view.node,
        phase=str(view.phase),
        since=view.since,
        profile=view.profile or "-",
        engine=view.engine or "-",
        address=view.address or "-",
        generation=view.generation,
        notes=_notes(view),
        failure=_failure(view),
        tail=view.tail,
        download=None if shard.progress is None or view.phase != Phase.FETCHING else download(shard.progress),
        can_restart=not view.leaving and view.going is None and shard.rank == 0,
    )


def _notes(view: ReplicaView) -> tuple[str, ...]:
    notes = []
    if view.node_state in _SILENT:
        notes.append(f"its node is {view.node_state}, and this is what it last said")
    if view.leaving and view.phase != Phase.DRAINING:
        notes.append("it was told to stop")
    if view.going is not None:
        notes.append(view.going)
    if view.stale == "stale":
        notes.append("stale: the catalog says something else since")
    if view.stale == "unknown":
        notes.append("its agent is too old to say whether it is current")
    if view.phase != Phase.FAILED and view.reason:
        notes.append(view.reason)
    return tuple(notes)


def _failure(view: ReplicaView) -> str | None:
    if view.phase != Phase.FAILED:
        return None
    text = view.reason or "no reason given"
    if view.exit_status is not None:
        ended = f"signal {-view.exit_status}" if view.exit_status < 0 else f"exit status {view.exit_status}"
        text += "" if ended in text else f" ({ended})"
    if view.failures:
        text += f"; failure {view.failures}"
    return text
