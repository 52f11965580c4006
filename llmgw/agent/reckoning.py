"""What a shard is reckoned to need when nobody knew it before its weights were here.

A server can reckon only after a node has told of the weights, so what is placed before that was promised no memory. It
must not be launched into memory that is not there all the same.
"""

from pathlib import Path

from msgspec.structs import replace

from llmgw.agent.shapes import read_shape
from llmgw.core.fleet.model_shape import ModelShape
from llmgw.core.fleet.shards import Claim, ShardSpec
from llmgw.engines.engine import Engine

HOW = "estimated from its weights, for min_memory_gb is not given; a smaller context needs less"


async def reckoned(spec: ShardSpec, engine: Engine, weights: Path | None, weights_bytes: int) -> ShardSpec:
    """Let a shard that nobody promised main memory to claim what its engine reckons; any other is as it was.

    What is reckoned of GPUs and of ranks was not measured, so nothing is refused for it.
    """
    claim = spec.claim or Claim()
    is_known = spec.profile.min_memory_gb is not None or claim.memory_bytes is not None
    if is_known or weights is None or spec.profile.gpus or spec.gang is not None:
        return spec
    shape = await read_shape(weights)
    need = engine.need(spec.profile, shape if isinstance(shape, ModelShape) else None, weights_bytes)
    return replace(spec, claim=replace(claim, memory_bytes=need.estimated_bytes))
