"""Engines that this server's database does not know: another database, or a later state of this one, placed them.

A server that was started on an empty folder, or on an old backup, would otherwise stop everything that runs, since none
of it is in its catalog. What it cannot prove to be its own it leaves alone and shows.
"""

from collections.abc import Collection

import msgspec

from llmgw.core.fleet.shards import ShardState
from llmgw.core.fleet.snapshot import Fleet
from llmgw.core.ids import Generation


class Stranger(msgspec.Struct, frozen=True):
    """One shard that is left alone, and its node."""

    node: str
    shard: ShardState

    def text(self, epoch: int) -> str:
        """Say what it is and what can be done about it."""
        shard = self.shard
        return (
            f"{shard.shard} on node {self.node} runs model {shard.model!r}, which this database never had (placed by "
            f"server start {shard.generation.epoch}, this is start {epoch}); it is left alone: restore the right "
            f"database, or apply a catalog with {shard.model!r} to keep it, and prune it to stop it"
        )


def is_strange(shard: ShardState, *, epoch: int, given: Collection[Generation], had: Collection[str]) -> bool:
    """Tell whether a shard was placed by a server that had another database, or a later state of this one.

    Every start on one database has a number of its own, so what carries this start's number or a later one, and was
    not placed by this start, is not ours.

    Args:
        epoch: of this server start, as the store counts it.
        given: generations that this start gave out.
        had: models that were in the catalog since this start.
    """
    generation = shard.generation
    return generation.epoch >= epoch and generation not in given and shard.model not in had


def strangers(
    fleet: Fleet, *, epoch: int, given: Collection[Generation], had: Collection[str]
) -> tuple[Stranger, ...]:
    """Find every shard that is left alone."""
    return tuple(
        Stranger(node.id, shard)
        for node in fleet.nodes.values()
        for shard in node.shards.values()
        if is_strange(shard, epoch=epoch, given=given, had=had)
    )
