"""A node that registers before its engines have told their versions: nothing of it is stopped, nothing begins on it."""

from pathlib import Path

import pytest
from fakes.catalogs import catalog_data
from fakes.nodes import LLAMA, a_shard
from fakes.running_server import RunningServer
from fakes.small_fleet import SmallFleet
from msgspec.structs import replace

from llmgw.agent.discovery.engines import LOOKING
from llmgw.core.fleet.catalog import Profile
from llmgw.wire.frames import DrainShard, Heartbeat, StartShard, StopShard

pytestmark = pytest.mark.slow

PROFILE = Profile(name="cpu", engine="llama.cpp", weights="file:///srv/models/gemma.gguf")


async def test_what_runs_there_stays_and_what_is_wanted_waits_until_the_engine_has_told(
    tmp_path: Path,
) -> None:
    not_yet = replace(LLAMA, version=None, problem=LOOKING)
    running = a_shard(fingerprint=PROFILE.fingerprint(), host="127.0.0.1")
    async with RunningServer(tmp_path) as server, SmallFleet(server) as fleet:
        await server.tell("apply", {"catalog": catalog_data({"name": "gemma"}, {"name": "qwen"})})
        agent = await fleet.join("n1", engines=(not_yet,), shards=(running,))
        waits = await server.until(
            "models",
            lambda rows: {row["name"]: row["why_not"] for row in rows if LOOKING in (row["why_not"] or "")},
        )
        status = await server.read("models")
        told = [*agent.of(StartShard), *agent.of(StopShard), *agent.of(DrainShard)]
        await agent.say(Heartbeat(engines=(LLAMA,)))
        start = await agent.until(lambda: next(iter(agent.of(StartShard)), None))

    assert waits
    assert {row["name"]: row["ready"] for row in status} == {"gemma": 1, "qwen": 0}
    assert told == []
    assert start.spec.model == "qwen"
