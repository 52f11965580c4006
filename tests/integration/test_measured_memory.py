"""A need of memory over its life: reckoned from what a node holds, measured by it, kept over a restart (PLACE-5)."""

from pathlib import Path
from typing import Any

from fakes.catalogs import catalog_data
from fakes.nodes import an_introduction
from fakes.running_server import RunningServer
from msgspec.structs import replace

from llmgw.core.fleet.beat import ShardUse
from llmgw.core.fleet.model_shape import ModelShape
from llmgw.core.fleet.weights import Holding
from llmgw.core.units import GIB, MIB
from llmgw.wire.frames import Heartbeat

SHAPE = ModelShape(
    architecture="llama",
    layers=2,
    context=4096,
    embedding=64,
    vocabulary=1000,
    heads=4,
    kv_heads=(2,),
    key_length=16,
    value_length=16,
    feed_forward=128,
)
HOLDING = Holding(
    path="/srv/models/gemma.gguf", source="file:///srv/models/gemma.gguf", size_bytes=GIB, shape=SHAPE
)
NODE = replace(an_introduction("n1"), weights=(HOLDING,))
EXPLAIN = "explain-placement?model=gemma"


def _said(found: Any) -> str:
    said: str = found["needs"][0]["memory_said"]
    return said


async def test_a_need_is_estimated_then_measured_and_stays_measured_after_a_restart(tmp_path: Path) -> None:
    async with RunningServer(tmp_path) as server, server.agent() as agent:
        await agent.register(NODE)
        await server.tell("apply", {"catalog": catalog_data({"name": "gemma"}), "prune": False})
        spec = await agent.started("gemma.0.0")
        estimated = await server.until(EXPLAIN, lambda found: _said(found) == "estimated")
        await agent.run(spec, port=9)
        use = ShardUse(shard=spec.shard, memory_bytes=2 * GIB, peak_bytes=3 * GIB)
        await agent.say(Heartbeat(uses=(use,)))
        (shown,) = await server.until("replicas", lambda rows: rows[0]["memory_bytes"] is not None and rows)

    async with RunningServer(tmp_path) as server, server.agent() as agent:
        await agent.register(NODE)
        measured = await server.until(EXPLAIN, lambda found: _said(found) == "measured")

    (before,), (after,) = estimated["needs"], measured["needs"]
    assert (shown["memory_bytes"], shown["memory_peak_bytes"]) == (2 * GIB, 3 * GIB)
    assert GIB < before["estimated_bytes"] < 1.2 * GIB
    assert before["memory_bytes"] == before["estimated_bytes"] + 512 * MIB
    assert spec.claim is not None
    assert spec.claim.memory_bytes == before["memory_bytes"]
    assert (after["measured_bytes"], after["memory_bytes"]) == (3 * GIB, 3 * GIB)
    assert after["estimated_bytes"] == before["estimated_bytes"]
