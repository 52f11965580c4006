"""Replicas as an operator sees them, one engine process each."""

from datetime import datetime

import msgspec
from msgspec.structs import replace

from llmgw.core.fleet.beat import ShardUse
from llmgw.core.fleet.catalog import Catalog, Model
from llmgw.core.fleet.orders import Orders
from llmgw.core.fleet.restarts import Attempts, retry_at
from llmgw.core.fleet.shards import LIVE, Phase, ShardState
from llmgw.core.fleet.snapshot import Fleet, Node, NodeState, is_leaving
from llmgw.core.ids import Generation
from llmgw.ui.present.ages import age_s

_NEVER = Generation(-1, 0)


class ProgressView(msgspec.Struct, frozen=True, kw_only=True):
    """How far a download is.

    Attributes:
        name: what it will be called in the node's cache.
        total_bytes: of the whole; None when its source does not say.
        rate: bytes a second lately; None when nobody knows yet.
        text: all of it in words.
    """

    name: str
    done_bytes: int
    total_bytes: int | None
    rate: float | None
    text: str


class ReplicaView(msgspec.Struct, frozen=True, kw_only=True):
    """One engine process of a replica.

    Attributes:
        id: the replica; in a partition two nodes may have a copy of it.
        node_state: of its node; what a silent node last said of the replica may no longer hold.
        leaving: it was told to stop.
        since: when its phase began, by the node's clock; `since_s` is how long ago that was, seconds.
        address: host:port that it answers on.
        stale: "current" as the catalog has it, "stale" when that was edited since, "unknown" when the agent is too
            old to say.
        tail: the last lines of its output, when it failed.
        failures: in a row, without ten minutes of health between them.
        next_try_s: seconds until a failed one is started again; None when it has not failed.
        going: why it is to be replaced or started again, though it still runs; None when it stays.
        progress: of the download that it waits for; None when it waits for none.
        memory_bytes: of main memory that it holds, as its node measured last.
        memory_peak_bytes: the most of it since it was started.
    """

    id: str
    shard: str
    model: str
    node: str
    node_state: NodeState
    phase: Phase
    leaving: bool
    since: datetime | None
    since_s: float | None
    generation: str
    profile: str | None
    engine: str | None
    address: str | None
    pid: int | None
    stale: str
    reason: str | None
    exit_status: int | None
    tail: tuple[str, ...]
    failures: int
    next_try_s: float | None
    going: str | None = None
    progress: ProgressView | None = None
    memory_bytes: int | None = None
    memory_peak_bytes: int | None = None


def replica_views(
    catalog: Catalog, fleet: Fleet, *, now: float, at: datetime, orders: Orders | None = None
) -> tuple[ReplicaView, ...]:
    """Show every engine process, in the order of models, replicas and nodes.

    Args:
        orders: what an operator ordered beside the catalog.
    """
    orders = orders or Orders()
    views = [
        replace(
            _view(node, shard, catalog.model(shard.model), fleet.attempts.get(shard.replica), now, at),
            going=_going(node, shard, orders),
        )
        for node in fleet.nodes.values()
        for shard in node.shards.values()
    ]
    return tuple(sorted(views, key=lambda view: (view.model, view.id, view.shard, view.node)))


def _going(node: Node, shard: ShardState, orders: Orders) -> str | None:
    if shard.phase not in LIVE:
        return None
    if shard.generation <= orders.restarts.get(shard.replica, _NEVER):
        return "it is restarted"
    if is_leaving(node, shard):
        return None
    if node.intent == NodeState.DRAINING:
        return "its node is drained"
    roll = orders.rolls.get(shard.model)
    return "it is rolled" if roll and roll.is_rolling() and roll.is_target(shard) else None


def _view(
    node: Node, shard: ShardState, model: Model | None, attempts: Attempts | None, now: float, at: datetime
) -> ReplicaView:
    failed = shard.phase == Phase.FAILED
    since = None if shard.since_s is None else datetime.fromtimestamp(shard.since_s, at.tzinfo)
    host = shard.host or node.address
    use = node.uses.get(shard.shard, ShardUse(shard=shard.shard))
    return ReplicaView(
        id=shard.replica,
        shard=shard.shard,
        model=shard.model,
        node=node.id,
        node_state=node.state,
        phase=shard.phase,
        leaving=is_leaving(node, shard),
        since=since,
        since_s=None if since is None else age_s(since, at),
        generation=str(shard.generation),
        profile=shard.profile,
        engine=shard.engine,
        address=None
        if shard.port is None
        else f"[{host}]:{shard.port}"
        if ":" in host
        else f"{host}:{shard.port}",
        pid=shard.pid,
        stale=_staleness(shard, model),
        reason=shard.reason,
        exit_status=shard.exit_status,
        tail=shard.tail,
        failures=0 if attempts is None else attempts.count,
        next_try_s=round(max(0.0, retry_at(attempts) - now), 1) if failed and attempts is not None else None,
        progress=_progress(shard),
        memory_bytes=use.memory_bytes,
        memory_peak_bytes=use.peak_bytes,
    )


def _progress(shard: ShardState) -> ProgressView | None:
    said = shard.progress
    if said is None or shard.phase != Phase.FETCHING:
        return None
    return ProgressView(
        name=said.cache_name,
        done_bytes=said.done_bytes,
        total_bytes=said.total_bytes,
        rate=said.rate,
        text=str(said),
    )


def _staleness(shard: ShardState, model: Model | None) -> str:
    if shard.fingerprint is None:
        return "unknown"
    fresh = model is not None and model.profile_of(shard.fingerprint) is not None
    return "current" if fresh else "stale"
