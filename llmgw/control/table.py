"""Make the route table from what is wanted and what is observed. Pure."""

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from llmgw.core.fleet.catalog import Catalog, Model, Profile
from llmgw.core.fleet.restarts import Attempts, retry_at
from llmgw.core.fleet.serving import Serving, serving_shards
from llmgw.core.fleet.shards import Phase, ShardState
from llmgw.core.fleet.snapshot import Fleet
from llmgw.core.placement.explain import Copy, copies_of, why_not_served
from llmgw.core.placement.place import Refused
from llmgw.core.routing.table import Endpoint, ModelRoute, RouteTable, build_table
from llmgw.engines.engine import Engine

_LOADING_S = 5.0
_FITS_NOWHERE_S = 15.0
_SWITCHED_OFF_S = 60.0
_MOST_S = 300.0


class Hold(msgspec.Struct, frozen=True, kw_only=True):
    """Why nothing is placed for now, and for how many seconds at most."""

    text: str
    for_s: float


def make_table(
    catalog: Catalog,
    created: Mapping[str, datetime],
    fleet: Fleet,
    engines: Mapping[str, Engine],
    *,
    hold: Hold | None,
    now: float,
    at: datetime,
    refused: Mapping[str, Refused] | None = None,
) -> RouteTable:
    """Make the table of every model in the catalog.

    Args:
        created: when each model entered the catalog.
        engines: adapters by the name of their engine.
        hold: why nothing is placed at all for now, or None.
        refused: models of which a replica fits nowhere, as the last plan found.
    """
    serving, copies = serving_shards(fleet), copies_of(fleet)
    routes = []
    for model in catalog.models:
        endpoints = tuple(
            endpoint
            for one in serving.get(model.name, ())
            if (endpoint := _endpoint(model, one, engines)) is not None
        )
        route = ModelRoute(
            name=model.name,
            aliases=model.aliases,
            fallback=model.fallback,
            endpoints=endpoints,
            created_s=int(created[model.name].timestamp()) if model.name in created else 0,
        )
        if not endpoints:
            held = hold.text if hold else None
            why_not = why_not_served(model, fleet, refused or {}, now=now, at=at, hold=held, copies=copies)
            wait_s = _wait(model, fleet, copies.get(model.name, ()), hold, now)
            route = msgspec.structs.replace(route, why_not=why_not, retry_after_s=wait_s)
        routes.append(route)
    return build_table(tuple(routes))


def _endpoint(model: Model, one: Serving, engines: Mapping[str, Engine]) -> Endpoint | None:
    shard = one.shard
    profile = _profile_of(model, one)
    tasks, capacity = _abilities(shard, profile, engines)
    # A port is known of everything that is ready; an agent that says otherwise cannot be reached.
    if shard.port is None or tasks is None:
        return None
    return Endpoint(
        replica=shard.replica,
        model=model.name,
        generation=shard.generation,
        node=one.node.id,
        host=shard.host or one.node.address,
        port=shard.port,
        engine=shard.engine or (profile.engine if profile else "unknown"),
        profile=shard.profile or (profile.name if profile else "unknown"),
        capacity=max(1, capacity),
        tasks=tasks,
    )


def _abilities(
    shard: ShardState, profile: Profile | None, engines: Mapping[str, Engine]
) -> tuple[tuple[str, ...] | None, int]:
    """Find what a copy answers and how many at once; what it says itself counts, its profile may be edited since."""
    adapter = None if profile is None else engines.get(profile.engine)
    tasks, capacity = shard.tasks, shard.capacity
    if profile is not None and adapter is not None:
        tasks = adapter.tasks(profile) if tasks is None else tasks
        capacity = adapter.capacity(profile) if capacity is None else capacity
    return tasks, capacity or 1


def _profile_of(model: Model, one: Serving) -> Profile | None:
    """Find the profile that a copy runs; of an edited one, what it is now comes nearest."""
    same = model.profile_of(one.shard.fingerprint)
    return same or next((p for p in model.profiles if p.name == one.shard.profile), None)


def _wait(model: Model, fleet: Fleet, copies: Sequence[Copy], hold: Hold | None, now: float) -> float:
    """Say when asking again may help, seconds."""
    if model.replicas == 0:
        return _SWITCHED_OFF_S
    if hold is not None:
        return hold.for_s + _LOADING_S
    if not copies:
        return _FITS_NOWHERE_S
    failed = [copy.shard for copy in copies if copy.shard.phase == Phase.FAILED]
    if len(failed) < len(copies):
        return _LOADING_S
    due = min(retry_at(fleet.attempts.get(shard.replica, Attempts())) for shard in failed)
    return min(max(0.0, due - now) + _LOADING_S, _MOST_S)
