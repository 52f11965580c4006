"""What an operator ordered beside the catalog: to roll a model, to restart a replica. Kept in memory alone.

An order names generations, so it cannot touch what came after it, and a server that forgets one does no harm: whatever
runs goes on, and the order is given again.
"""

from enum import StrEnum

import msgspec
from msgspec.structs import replace

from llmgw.core.fleet.catalog import Model
from llmgw.core.fleet.shards import LIVE, Phase, ShardState
from llmgw.core.fleet.snapshot import Fleet, NodeState, is_leaving
from llmgw.core.ids import Generation

ROOM_WITHIN_S = 60.0
"""How long a roll waits for room; what has just ended may still be in the free memory that nodes report."""


class RollState(StrEnum):
    """How far a roll is."""

    ROLLING = "rolling"
    DONE = "done"
    STOPPED = "stopped"


class Roll(msgspec.Struct, frozen=True, kw_only=True):
    """Replace some replicas of a model one by one, the new one ready before the old one drains.

    Attributes:
        targets: replicas to replace, each with the generation it was of when this was ordered.
        began: the latest generation of the model when this was ordered; what is later is new.
        left: how many targets there still are.
        why: what it waits for, why it stopped, or why there was nothing to replace; None when it goes on.
        refused_now: monotonic seconds since which the next new replica fits nowhere, or None.
    """

    model: str
    targets: dict[str, Generation]
    began: Generation
    left: int
    state: RollState = RollState.ROLLING
    why: str | None = None
    refused_now: float | None = None

    def is_target(self, shard: ShardState) -> bool:
        """Tell whether a copy is still to be replaced."""
        aimed = self.targets.get(shard.replica)
        return aimed is not None and shard.generation <= aimed and shard.phase in LIVE

    def is_rolling(self) -> bool:
        """Tell whether anything is left to be done."""
        return self.state == RollState.ROLLING


class Orders(msgspec.Struct, frozen=True, kw_only=True):
    """All orders.

    Attributes:
        rolls: the last roll of each model, by its name; those that ended stay to be looked at.
        restarts: replicas to be drained and started again, each with the generation it was of.
    """

    rolls: dict[str, Roll] = {}
    restarts: dict[str, Generation] = {}


def begin_roll(model: Model, fleet: Fleet, *, every: bool) -> Roll:
    """Choose what a roll replaces: the stale replicas, or `every` one."""
    shards = [
        shard
        for node in fleet.nodes.values()
        if node.state != NodeState.LOST
        for shard in node.shards.values()
        if shard.model == model.name
    ]
    leaving = {id(s) for n in fleet.nodes.values() for s in n.shards.values() if is_leaving(n, s)}
    targets = {
        shard.replica: shard.generation
        for shard in sorted(shards, key=lambda shard: shard.generation)
        if shard.phase in LIVE and id(shard) not in leaving and (every or is_stale(model, shard))
    }
    began = max((shard.generation for shard in shards), default=Generation(0, 0))
    if targets:
        return Roll(model=model.name, targets=targets, began=began, left=len(targets))
    staying = [shard for shard in shards if id(shard) not in leaving]
    why = _why_nothing(staying, every=every)
    return Roll(model=model.name, targets={}, began=began, left=0, state=RollState.DONE, why=why)


def _why_nothing(shards: list[ShardState], *, every: bool) -> str:
    failed = len({shard.replica for shard in shards if shard.phase == Phase.FAILED})
    running = any(shard.phase in LIVE for shard in shards)
    if running and not every:
        why = "none that runs is stale (--all replaces every one)"
    else:
        why = "none runs" if shards else "it has none"
    if not failed:
        return why
    which = "1 has failed and is" if failed == 1 else f"{failed} have failed and are"
    return f"{why}; {which} started again by the backoff, with the profile of now"


def is_stale(model: Model, shard: ShardState) -> bool:
    """Tell whether a copy runs what the catalog no longer says; one that does not say is not called stale."""
    return shard.fingerprint is not None and model.profile_of(shard.fingerprint) is None


def stopped(roll: Roll, why: str) -> Roll:
    """End a roll that cannot go on."""
    return replace(roll, state=RollState.STOPPED, why=why, refused_now=None)
