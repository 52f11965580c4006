"""Drains, rolls, restarts and silence, through the admin API, the link and the router; engines are scripted."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from fakes.catalogs import catalog_data
from fakes.engine import SSE_HEAD, Act, FakeEngine, chunk, plain
from fakes.http_client import HttpClient, post
from fakes.linked_agent import LinkedAgent, state_of
from fakes.running_server import RunningServer
from fakes.small_fleet import SmallFleet
from fakes.waiting import until

from llmgw.core.fleet.shards import Phase, ShardSpec
from llmgw.wire.frames import DrainShard, StartShard, StopShard

STREAM = [SSE_HEAD, chunk(b"data: 1\n\n"), Act.HOLD, chunk(b"data: [DONE]\n\n"), b"0\r\n\r\n"]
ASK = b'{"model": "gemma", "stream": true}'


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RunningServer]:
    async with RunningServer(tmp_path) as server:
        yield server


@pytest.fixture
async def fleet(server: RunningServer) -> AsyncIterator[SmallFleet]:
    async with SmallFleet(server) as fleet:
        yield fleet


async def _apply(server: RunningServer, **model: Any) -> None:
    await server.tell("apply", {"catalog": catalog_data({"name": "gemma"} | model)})


async def _ready(server: RunningServer, count: int = 1) -> None:
    await server.until("models", lambda rows: [row["ready"] for row in rows] == [count])


async def _refused(server: RunningServer, path: str, body: Any) -> str:
    with pytest.raises(AssertionError) as caught:
        await server.tell(path, body)
    return str(caught.value)


async def _serve(agent: LinkedAgent, shard: str, port: int) -> ShardSpec:
    spec = await agent.started(shard)
    await agent.run(spec, port=port)
    return spec


async def test_a_drained_node_is_empty_when_its_last_request_is_finished_and_no_request_is_lost(
    server: RunningServer, fleet: SmallFleet
) -> None:
    """RUN-7."""
    key = (await server.tell("keys", {"name": "tests"}))["key"]
    async with FakeEngine(STREAM) as old, FakeEngine([plain(b'{"from": "new"}')]) as new:
        first = await fleet.join("n1")
        await _apply(server)
        spec = await _serve(first, "gemma.0.0", old.port)
        await _ready(server)
        second = await fleet.join("n2")
        async with HttpClient(server.port("client")) as client:
            await client.send(post(ASK, key=key))
            await until(lambda: old.held)
            told = await server.tell("nodes/n1/state", {"state": "draining"})
            moved = await second.started("gemma.1.0")
            early = first.of(DrainShard) + first.of(StopShard)
            await second.run(moved, port=new.port)
            drain = await first.drained("gemma.0.0")
            await first.report(state_of(spec, port=old.port, phase=Phase.DRAINING))
            meanwhile = await server.ask(post(b'{"model": "gemma"}', key=key))
            still = first.of(StopShard)
            old.released.set()
            answer = await client.read_answer()
        await first.stopped("gemma.0.0")
        await first.report(state_of(spec, port=old.port, phase=Phase.STOPPED))
        nodes = await server.until("nodes", lambda rows: rows[0]["replicas"] == [])

    assert told == {"id": "n1", "state": "draining", "replicas": ["gemma.0"]}
    assert early == still == []
    assert (drain.generation, drain.deadline_s) == (spec.generation, 60.0)
    assert meanwhile.body == b'{"from": "new"}'
    assert answer.body.endswith(b"data: [DONE]\n\n")
    assert nodes[0]["state"] == "draining"
    assert any("is to end: node n1 is drained" in event["text"] for event in nodes[0]["events"])


async def test_the_only_node_is_emptied_too_and_the_reason_is_on_the_503(
    server: RunningServer, fleet: SmallFleet
) -> None:
    key = (await server.tell("keys", {"name": "tests"}))["key"]
    async with FakeEngine() as engine:
        agent = await fleet.join("n1")
        await _apply(server)
        spec = await _serve(agent, "gemma.0.0", engine.port)
        await _ready(server)
        await server.tell("nodes/n1/state", {"state": "draining"})
        stop = await agent.stopped("gemma.0.0")
        await agent.report(state_of(spec, port=engine.port, phase=Phase.STOPPED))
        rows = await server.until(
            "models", lambda rows: rows[0]["ready"] == 0 and "state" in rows[0]["why_not"]
        )
        answer = await server.ask(post(b'{"model": "gemma"}', key=key))
        await server.tell("nodes/n1/state", {"state": "ready"})
        again = await agent.started("gemma.0.0", after=1)

    assert stop.because == "node n1 is drained, and it fits on no other node"
    assert "n1: state: needs a ready node, has draining since" in rows[0]["why_not"]
    assert "llmgw ctl nodes uncordon n1" in rows[0]["why_not"]
    assert answer.status == 503
    assert again.generation > spec.generation


async def test_what_an_operator_wants_of_a_node_outlives_a_restart_of_the_server(tmp_path: Path) -> None:
    async with RunningServer(tmp_path) as server, SmallFleet(server) as fleet:
        await fleet.join("n1")
        await server.tell("nodes/n1/state", {"state": "cordoned"})
    async with RunningServer(tmp_path) as server, SmallFleet(server) as fleet:
        await fleet.join("n1")
        node = await server.read("nodes/n1")

    assert (node["state"], node["wanted"]) == ("cordoned", "cordoned")
    assert any("cordoned, was ready" in event["text"] for event in node["events"])
    assert node["events"][-1]["text"].startswith("registered from 127.0.0.1")


async def test_a_model_is_rolled_one_by_one_without_a_gap(server: RunningServer, fleet: SmallFleet) -> None:
    """RUN-10."""
    async with FakeEngine() as engine:
        agent = await fleet.join("n1")
        await _apply(server, replicas=2)
        specs = {f"gemma.{i}.0": await _serve(agent, f"gemma.{i}.0", engine.port) for i in range(2)}
        await _ready(server, 2)
        await _apply(server, replicas=2, profiles=[{"context": 4096}])
        begun = await server.tell("models/gemma/roll", {})
        twice = await _refused(server, "models/gemma/roll", {})
        order = []
        for shard, gone in (("gemma.2.0", "gemma.0.0"), ("gemma.0.0", "gemma.1.0")):
            new = await agent.started(shard, after=shard == "gemma.0.0")
            order.append(len(agent.of(StopShard)))
            await agent.run(new, port=engine.port)
            await agent.stopped(gone)
            await agent.report(state_of(specs[gone], port=engine.port, phase=Phase.STOPPED))
        rows = await server.until("models", lambda rows: rows[0]["roll"]["state"] == "done")
        stale = await server.read("replicas")

    assert (begun["state"], begun["total"], begun["replaced"]) == ("rolling", 2, 0)
    assert "409" in twice
    assert order == [0, 1]
    assert rows[0]["roll"] == {"model": "gemma", "state": "done", "total": 2, "replaced": 2, "why": None}
    assert [(row["id"], row["stale"]) for row in stale] == [("gemma.0", "current"), ("gemma.2", "current")]


async def test_a_roll_stops_at_the_first_new_replica_that_fails(
    server: RunningServer, fleet: SmallFleet
) -> None:
    async with FakeEngine() as engine:
        agent = await fleet.join("n1")
        await _apply(server)
        await _serve(agent, "gemma.0.0", engine.port)
        await _ready(server)
        await _apply(server, profiles=[{"context": 4096}])
        await server.tell("models/gemma/roll", {})
        new = await agent.started("gemma.1.0")
        await agent.report(state_of(new, port=1, phase=Phase.STARTING))
        await agent.run(new, port=1, phase=Phase.FAILED)
        rows = await server.until("models", lambda rows: rows[0]["roll"]["state"] == "stopped")
        stop = await agent.stopped("gemma.1.0")

    assert rows[0]["roll"]["why"].startswith(f"the new gemma.1 ({new.generation}) failed on n1")
    assert rows[0]["ready"] == 1
    assert stop.generation == new.generation
    assert [frame.shard for frame in agent.of(StopShard)] == ["gemma.1.0"]


async def test_a_restarted_replica_finishes_and_starts_again_under_its_name(
    server: RunningServer, fleet: SmallFleet
) -> None:
    async with FakeEngine() as engine:
        agent = await fleet.join("n1")
        await _apply(server)
        spec = await _serve(agent, "gemma.0.0", engine.port)
        await _ready(server)
        told = await server.tell("replicas/gemma.0/restart", {})
        stop = await agent.stopped("gemma.0.0")
        before = len(agent.of(StartShard))
        await agent.report(state_of(spec, port=engine.port, phase=Phase.STOPPED))
        again = await agent.started("gemma.0.0", after=1)
        missing = await _refused(server, "replicas/gemma.7/restart", {})

    assert told == {"id": "gemma.0", "generation": str(spec.generation)}
    assert stop.because == "an operator asked to restart it"
    assert before == 1
    assert again.generation > spec.generation
    assert "404" in missing


async def test_most_of_the_fleet_falling_silent_is_an_alarm_and_nothing_moves_until_an_operator_says_so(
    server: RunningServer, fleet: SmallFleet
) -> None:
    """RUN-7, principle 4."""
    async with FakeEngine() as engine:
        for name in ("n1", "n2", "n3"):
            await fleet.join(name)
        await _apply(server)
        home = await until(lambda: next((n for n, a in fleet.agents.items() if a.of(StartShard)), None))
        await _serve(fleet.agents[home], "gemma.0.0", engine.port)
        await _ready(server)
        left = next(name for name in fleet.agents if name != home)
        gone = sorted({"n1", "n2", "n3"} - {left})
        for name in gone:
            await fleet.leave(name)
        status = await server.until("status", lambda status: status["alarm"] is not None)
        # Several lost-timeouts of this server later.
        rows = await server.until(
            "nodes", lambda rows: all(r["since_s"] > 1.5 for r in rows if r["id"] in gone)
        )
        nodes = {row["id"]: row["state"] for row in rows}
        moved_early = fleet.agents[left].of(StartShard)
        cleared = await server.tell("alarm/clear", {})
        moved = await fleet.agents[left].started("gemma.0.0")
        after = await server.read("status")

    assert status["alarm"]["nodes"] == gone
    assert status["problems"][0].startswith("alarm: 2 of 3 nodes fell silent together")
    assert [nodes[name] for name in gone] == ["unreachable", "unreachable"]
    assert moved_early == []
    assert cleared["nodes"] == gone
    assert moved.replica == "gemma.0"
    assert after["alarm"] is None


async def test_an_alarm_ends_by_itself_when_the_nodes_return_and_is_in_their_history(
    server: RunningServer, fleet: SmallFleet
) -> None:
    for name in ("n1", "n2", "n3"):
        await fleet.join(name)
    for name in ("n1", "n2"):
        await fleet.leave(name)
    await server.until("status", lambda status: status["alarm"])
    for name in ("n1", "n2"):
        await fleet.join(name)
    status = await server.until("status", lambda status: status["alarm"] is None)
    texts = [event["text"] for event in (await server.read("nodes/n1"))["events"]]

    assert status["nodes"] == {"ready": 3}
    assert "2 of 3 nodes are silent, this one too; nothing of it is placed elsewhere" in texts
    assert texts[-1] == "the alarm of silence is over"
    assert "connected again" in texts


async def test_a_node_that_is_gone_for_good_is_forgotten_and_a_starting_server_does_not_wait_for_it(
    tmp_path: Path,
) -> None:
    async with RunningServer(tmp_path) as server, SmallFleet(server) as fleet:
        await fleet.join("n1")
        await fleet.join("gone")
        connected = await _refused(server, "nodes/gone/forget", {})
        await fleet.leave("gone")
        await server.until("nodes", lambda rows: {r["id"]: r["state"] for r in rows}["gone"] == "lost")
        await server.tell("nodes/gone/forget", {})
        nodes = [row["id"] for row in await server.read("nodes")]
        unknown = await _refused(server, "nodes/gone/forget", {})
    async with RunningServer(tmp_path) as server, SmallFleet(server) as fleet:
        await fleet.join("n1")
        status = await server.read("status")

    assert "409" in connected
    assert nodes == ["n1"]
    assert "404" in unknown
    assert status["hold"] is None


async def test_a_node_that_never_came_back_after_a_restart_can_be_forgotten_while_the_server_waits_for_it(
    tmp_path: Path,
) -> None:
    async with RunningServer(tmp_path) as server, SmallFleet(server) as fleet:
        await fleet.join("gone")
        await _apply(server)
    async with RunningServer(tmp_path) as server, SmallFleet(server) as fleet:
        agent = await fleet.join("n1")
        held = (await server.read("status"))["hold"]
        await server.tell("nodes/gone/forget", {})
        await agent.started("gemma.0.0")

    assert "until gone registered too" in held


async def test_a_partition_leaves_exactly_one_generation_and_says_so_in_the_history_of_the_node(
    server: RunningServer, fleet: SmallFleet
) -> None:
    async with FakeEngine() as engine:
        first = await fleet.join("n1")
        await _apply(server)
        spec = await first.started("gemma.0.0")
        old = await first.run(spec, port=engine.port)
        second = await fleet.join("n2")
        await _ready(server)
        await fleet.leave("n1")
        moved = await second.started("gemma.0.0")
        returned = await fleet.join("n1", shards=(old,))
        serving = (await server.read("models"))[0]["ready"]
        await server.read("nodes/n1")
        early = returned.of(StopShard)
        await second.run(moved, port=engine.port)
        stop = await returned.stopped("gemma.0.0")
        await returned.report(state_of(spec, port=engine.port, phase=Phase.STOPPED))
        await server.until("replicas", lambda rows: [row["node"] for row in rows] == ["n2"])
        texts = [event["text"] for event in (await server.read("nodes/n1"))["events"]]

    said = f"older generation {spec.generation} of gemma.0 stopped here, {moved.generation} runs on n2"
    assert serving == 1
    assert early == []
    assert stop.because == said
    assert f"gemma.0 ({spec.generation}) is to end: {said}" in texts
    assert texts[-1] == f"gemma.0 ({spec.generation}) stopped"
