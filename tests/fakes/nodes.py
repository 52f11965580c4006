"""What nodes and their shards say of themselves, with defaults that a test need not spell."""

from typing import Any

from llmgw.core.fleet.hardware import EngineInstall, Machine, Memory
from llmgw.core.fleet.shards import Phase, ShardState
from llmgw.core.fleet.snapshot import Introduction
from llmgw.core.ids import Generation, replica_id, shard_id
from llmgw.core.units import GIB

LLAMA = EngineInstall(engine="llama.cpp", form="llama-server", path="/opt/llama/llama-server", version="b1")


def an_introduction(node: str = "n1", *, free_gb: float | None = 64, **given: Any) -> Introduction:
    """A node with llama.cpp and `free_gb` of memory, all of it free; None does not say."""
    free = None if free_gb is None else int(free_gb * GIB)
    machine = Machine(hostname=node, memory=Memory(total_bytes=free, available_bytes=free))
    return Introduction(
        **{"node": node, "address": "127.0.0.1", "machine": machine, "engines": (LLAMA,)} | given
    )


def a_shard(
    model: str = "gemma", ordinal: int = 0, *, generation: tuple[int, int] = (1, 1), **given: Any
) -> ShardState:
    """A ready shard of rank 0."""
    replica = replica_id(model, ordinal)
    return ShardState(
        **{
            "shard": shard_id(replica, given.get("rank", 0)),
            "replica": replica,
            "model": model,
            "ordinal": ordinal,
            "generation": Generation(*generation),
            "phase": Phase.READY,
            "profile": "cpu",
            "engine": "llama.cpp",
            "port": 9001,
        }
        | given
    )
