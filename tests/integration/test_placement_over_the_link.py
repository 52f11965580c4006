"""Server, link and router together; the agent is a real connection, its engines are scripted."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from fakes.catalogs import catalog_data
from fakes.engine import FakeEngine, plain
from fakes.http_client import Answer, post
from fakes.linked_agent import state_of
from fakes.nodes import an_introduction
from fakes.running_server import RunningServer

from llmgw.core.fleet.shards import Phase
from llmgw.wire.frames import StartShard, StopShard

CHAT = b'{"model": "gemma", "messages": [{"role": "user", "content": "Hi"}]}'


class _Site:
    """A running server with a key, asked as a client and as an admin ask."""

    def __init__(self, server: RunningServer, key: str) -> None:
        self.server = server
        self.key = key

    async def apply(self, *models: dict[str, Any], prune: bool = False) -> dict[str, Any]:
        body = {"catalog": catalog_data(*models), "prune": prune}
        changed: dict[str, Any] = await self.server.tell("apply", body)
        return changed

    async def chat(self, body: bytes = CHAT) -> Answer:
        return await self.server.ask(post(body, key=self.key))

    async def until_answered(self, with_body: bytes) -> Answer:
        """Ask until this is the answer: the router learns of a ready replica a moment after the pages do."""
        answer = await self.chat()
        async with asyncio.timeout(10):
            while answer.body != with_body:
                answer = await self.chat()
        return answer

    async def until_ready(self, count: int = 1, model: str = "gemma") -> None:
        await self.server.until(
            "models", lambda rows: [r["ready"] for r in rows if r["name"] == model] == [count]
        )


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[_Site]:
    async with RunningServer(tmp_path) as server:
        yield _Site(server, (await server.tell("keys", {"name": "tests"}))["key"])


async def test_a_model_goes_from_the_catalog_over_the_link_to_an_answer(site: _Site) -> None:
    async with FakeEngine([plain(b'{"id": "1"}')]) as engine, site.server.agent() as agent:
        await agent.register()
        before = await site.chat()
        changed = await site.apply({"name": "gemma"})
        spec = await agent.started("gemma.0.0")
        await agent.run(spec, port=engine.port, phase=Phase.STARTING)
        await site.server.until("replicas", lambda rows: [r["phase"] for r in rows] == ["starting"])
        loading = await site.chat()
        await agent.run(spec, port=engine.port)
        await site.until_ready()
        served = await site.until_answered(b'{"id": "1"}')

    assert before.status == 404
    assert changed["created"] == ["gemma"]
    assert loading.status == 503
    assert "replica gemma.0 on n1 is starting" in loading.error()["message"]
    assert int(loading.get(b"retry-after") or 0) >= 1
    assert served.status == 200
    assert served.get(b"x-llmgw-replica") == b"gemma.0"


async def test_a_model_without_a_fitting_node_is_refused_with_every_verdict(site: _Site) -> None:
    async with site.server.agent() as agent:
        await agent.register(free_gb=4)
        await site.apply({"name": "gemma", "profiles": [{"min_memory_gb": 100}]})
        await site.server.until(
            "models", lambda rows: rows and "fits on none of 1 nodes" in (rows[0]["why_not"] or "")
        )
        answer = await site.chat()

    assert answer.status == 503
    assert (
        "n1: memory: needs 100.0 GiB of memory (given), has 4.0 GiB free of 4.0 GiB"
        in answer.error()["message"]
    )


async def test_the_replica_of_a_node_that_dies_moves_and_answers_again_without_a_gap_in_what_is_said(
    site: _Site,
) -> None:
    old, new = FakeEngine([plain(b'{"from": "old"}')]), FakeEngine([plain(b'{"from": "new"}')])
    async with old, new, site.server.agent() as first, site.server.agent() as second:
        await first.register(node="n1", free_gb=8)
        await site.apply({"name": "gemma"})
        spec = await first.started("gemma.0.0")
        await first.run(spec, port=old.port)
        await second.register(node="n2", free_gb=64)
        await site.until_ready()
        beating = asyncio.create_task(second.beat())

        first.vanish()
        await site.server.until("nodes", lambda rows: rows[0]["state"] == "unreachable")
        meanwhile = await site.chat()
        moved = await second.started("gemma.0.0")
        loading = await site.chat()
        await second.run(moved, port=new.port)
        await site.server.until("nodes", lambda rows: rows[0]["state"] == "lost")
        await site.server.until(
            "replicas", lambda rows: {(r["node"], r["phase"]) for r in rows} >= {("n2", "ready")}
        )
        afterwards = await site.until_answered(b'{"from": "new"}')
        beating.cancel()
        await asyncio.gather(beating, return_exceptions=True)

    assert moved.generation > spec.generation
    # The engines of a node whose agent died go on serving until their replacement does.
    assert [json.loads(a.body)["from"] for a in (meanwhile, loading, afterwards)] == ["old", "old", "new"]


async def test_a_node_that_returns_with_an_older_copy_is_told_to_stop_it(site: _Site) -> None:
    async with FakeEngine() as engine, site.server.agent() as second:
        first = site.server.agent()
        await first.open()
        await first.register(node="n1", free_gb=8)
        await site.apply({"name": "gemma"})
        spec = await first.started("gemma.0.0")
        state = await first.run(spec, port=engine.port)
        await second.register(node="n2")
        await site.until_ready()
        beating = asyncio.create_task(second.beat())
        await first.close()
        moved = await second.started("gemma.0.0")
        await second.run(moved, port=engine.port)
        async with site.server.agent() as returned:
            await returned.register(node="n1", shards=(state,))
            stop = await returned.stopped("gemma.0.0")
        beating.cancel()
        await asyncio.gather(beating, return_exceptions=True)

    assert stop.generation == spec.generation
    assert stop.because == (
        f"older generation {spec.generation} of gemma.0 stopped here, {moved.generation} runs on n2"
    )


async def test_scaling_up_starts_and_scaling_down_stops_the_highest_ordinal(site: _Site) -> None:
    async with FakeEngine() as engine, site.server.agent() as agent:
        await agent.register()
        await site.apply({"name": "gemma"})
        await agent.run(await agent.started("gemma.0.0"), port=engine.port)
        await site.until_ready()
        await site.apply({"name": "gemma", "replicas": 3})
        for ordinal in (1, 2):
            await agent.run(await agent.started(f"gemma.{ordinal}.0"), port=engine.port)
        await site.until_ready(3)
        await site.apply({"name": "gemma", "replicas": 1})
        for ordinal in (1, 2):
            stop = await agent.stopped(f"gemma.{ordinal}.0")
            started = next(f.spec for f in agent.of(StartShard) if f.spec.shard == stop.shard)
            await agent.run(started, port=engine.port, phase=Phase.STOPPED)
        await site.server.until("replicas", lambda rows: [r["id"] for r in rows] == ["gemma.0"])

    assert len(agent.of(StopShard)) == 2


async def test_a_model_is_stopped_when_a_prune_takes_it_and_kept_by_an_apply_that_does_not_name_it(
    site: _Site,
) -> None:
    async with FakeEngine() as engine, site.server.agent() as agent:
        await agent.register()
        await site.apply({"name": "gemma"})
        await agent.run(await agent.started("gemma.0.0"), port=engine.port)
        await site.until_ready()
        kept = await site.apply({"name": "other"})
        pruned = await site.apply({"name": "other"}, prune=True)
        stop = await agent.stopped("gemma.0.0")
        gone = await site.chat()

    assert (kept["kept"], pruned["removed"]) == (["gemma"], ["gemma"])
    assert stop.because == "model 'gemma' left the catalog"
    assert gone.status == 404


async def test_an_edited_profile_makes_its_replica_stale_and_lets_it_run(site: _Site) -> None:
    async with FakeEngine() as engine, site.server.agent() as agent:
        await agent.register()
        await site.apply({"name": "gemma"})
        await agent.run(await agent.started("gemma.0.0"), port=engine.port)
        await site.until_ready()
        await site.apply({"name": "gemma", "profiles": [{"context": 4096}]})
        rows = await site.server.read("replicas")
        answer = await site.chat()

    assert rows[0]["stale"] == "stale"
    assert answer.status == 200
    assert agent.of(StopShard) == []


async def test_a_replica_that_fails_starts_again_after_its_backoff(site: _Site) -> None:
    async with site.server.agent() as agent:
        await agent.register()
        await site.apply({"name": "gemma"})
        first = await agent.started("gemma.0.0")
        await agent.report(state_of(first, port=1, phase=Phase.STARTING))
        await agent.run(first, port=1, phase=Phase.FAILED)
        again = await agent.started("gemma.0.0", after=1)

    assert again.generation > first.generation
    assert again.profile == first.profile


async def test_a_restarted_server_takes_over_what_runs_and_starts_nothing_twice(tmp_path: Path) -> None:
    async with FakeEngine() as engine:
        async with RunningServer(tmp_path) as server, server.agent() as agent:
            site = _Site(server, (await server.tell("keys", {"name": "tests"}))["key"])
            await agent.register()
            await site.apply({"name": "gemma"})
            state = await agent.run(await agent.started("gemma.0.0"), port=engine.port)
            await site.until_ready()
        async with RunningServer(tmp_path) as server:
            site = _Site(server, site.key)
            held = await server.read("status")
            waiting = await site.chat()
            async with server.agent() as agent:
                await agent.register(an_introduction(shards=(state,)))
                await site.until_ready()
                answer = await site.until_answered(b'{"ok": true}')
                after = await server.read("status")

    assert "places nothing until n1 registered too" in held["hold"]
    assert waiting.status == 503
    assert after["hold"] is None
    assert answer.status == 200
    assert agent.of(StartShard) == []


async def test_a_restarted_server_waits_no_longer_than_its_grace_for_a_node_that_is_gone(
    tmp_path: Path,
) -> None:
    async with RunningServer(tmp_path) as server, server.agent() as gone:
        await gone.register(node="gone")
        await _Site(server, "").apply({"name": "gemma"})
        await gone.started("gemma.0.0")
    async with RunningServer(tmp_path) as server, server.agent() as agent:
        await agent.register(node="n1")
        beating = asyncio.create_task(agent.beat())
        spec = await agent.started("gemma.0.0")
        beating.cancel()
        await asyncio.gather(beating, return_exceptions=True)

    assert spec.generation.epoch == 2
