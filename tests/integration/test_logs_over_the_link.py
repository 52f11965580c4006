"""Logs over a whole server and the link: what the agent is asked, what viewers get, and when it ends."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from fakes.http_client import HttpClient, get
from fakes.linked_agent import LinkedAgent
from fakes.running_server import RunningServer

from llmgw.wire.frames import FollowLogs, LogLines, LogsReply, LogsRequest, StopFollow, TakenLogs

FOLLOW = "/api/v1/nodes/n1/logs/follow?source=m.0.0&lines=5"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RunningServer]:
    async with RunningServer(tmp_path) as running:
        yield running


async def next_event(client: HttpClient) -> dict[str, Any]:
    """Read on to the next event of a stream."""
    async with asyncio.timeout(10):
        while True:
            chunk = await client.read_chunk()
            for line in chunk.split(b"\n"):
                if line.startswith(b"data: "):
                    event: dict[str, Any] = json.loads(line[6:])
                    return event


async def follow(server: RunningServer, cursor: str | None = None) -> HttpClient:
    client = await HttpClient(server.port("admin")).__aenter__()
    url = FOLLOW + (f"&cursor={cursor}" if cursor else "")
    await client.send(get(url, key=None))
    status, _ = await client.read_head()
    assert status == 200
    return client


async def asked_to_follow(agent: LinkedAgent, count: int = 1) -> FollowLogs:
    asked: FollowLogs = await agent.until(lambda: agent.of(FollowLogs)[count - 1 : count])
    return agent.of(FollowLogs)[count - 1] if asked else asked


async def test_a_request_travels_to_the_agent_and_its_reply_to_whoever_asked(server: RunningServer) -> None:
    async with server.agent() as agent:
        await agent.register()
        asking = asyncio.create_task(
            server.ask(get("/api/v1/nodes/n1/logs?source=m.0.0&lines=7", key=None), of="admin")
        )
        request = await agent.until(lambda: next(iter(agent.of(LogsRequest)), None))
        await agent.say(LogsReply(request_id=request.request_id, lines=("<b>",), sources=("agent", "m.0.0")))
        answer = await asking

    assert (request.source, request.lines) == ("m.0.0", 7)
    assert answer.status == 200
    assert json.loads(answer.body) == {
        "node": "n1",
        "source": "m.0.0",
        "lines": ["<b>"],
        "sources": ["agent", "m.0.0"],
    }


async def test_a_viewer_that_leaves_ends_the_follow_at_the_agent(server: RunningServer) -> None:
    async with server.agent() as agent:
        await agent.register()
        client = await follow(server)
        asked = await asked_to_follow(agent)
        await agent.say(LogLines(follow_id=asked.follow_id, number=1, lines=("1",), cursor="c:1", live=True))
        event = await next_event(client)
        await agent.until(lambda: agent.of(TakenLogs))

        await client.__aexit__()
        stopped = await agent.until(lambda: next(iter(agent.of(StopFollow)), None))

    assert event["lines"] == ["1"]
    assert stopped.follow_id == asked.follow_id


async def test_a_follow_goes_on_over_the_agents_next_stream(server: RunningServer) -> None:
    async with server.agent() as agent:
        await agent.register()
        client = await follow(server)
        asked = await asked_to_follow(agent)
        await agent.say(LogLines(follow_id=asked.follow_id, number=1, lines=("1",), cursor="c:1", live=True))
        first = await next_event(client)
        agent.vanish()
        away = await next_event(client)
    async with server.agent() as again:
        await again.register()
        asked = await asked_to_follow(again)
        await again.say(LogLines(follow_id=asked.follow_id, number=1, lines=("2",), cursor="c:2", live=True))
        second = await next_event(client)
        await client.__aexit__()

    assert (first["lines"], second["lines"]) == (["1"], ["2"])
    assert "waiting for it" in away["note"]
    assert asked.cursor == "c:1"


async def test_a_viewer_goes_on_at_its_cursor_when_the_server_was_started_anew(tmp_path: Path) -> None:
    async with RunningServer(tmp_path) as server, server.agent() as agent:
        await agent.register()
        client = await follow(server)
        asked = await asked_to_follow(agent)
        await agent.say(LogLines(follow_id=asked.follow_id, number=1, lines=("1",), cursor="c:1", live=True))
        cursor = (await next_event(client))["cursor"]
        server.stop()
        ending = await next_event(client)
        await client.__aexit__()
    async with RunningServer(tmp_path) as server, server.agent() as agent:
        await agent.register()
        client = await follow(server, cursor)
        shared = await asked_to_follow(agent)
        await agent.say(LogLines(follow_id=shared.follow_id, number=1, lines=("3",), cursor="c:3", live=True))
        missed = await asked_to_follow(agent, 2)
        await agent.say(
            LogLines(follow_id=missed.follow_id, number=1, lines=("2", "3"), cursor="c:3", ended=True)
        )
        event = await next_event(client)
        await client.__aexit__()

    assert "the server is ending" in ending["note"]
    assert not ending["ended"]
    assert (missed.cursor, missed.until) == ("c:1", "c:3")
    assert event["lines"] == ["2", "3"]


async def test_an_agent_that_knows_nothing_of_logs_is_said_to_be_too_old_within_11_seconds(
    server: RunningServer,
) -> None:
    async with server.agent() as agent:
        await agent.register()
        client = await follow(server)
        beating = asyncio.create_task(agent.beat())
        async with asyncio.timeout(11):
            answer = await server.ask(get("/api/v1/nodes/n1/logs", key=None), of="admin")
            event = await next_event(client)
        await client.__aexit__()
        beating.cancel()

    body = json.loads(answer.body)
    assert answer.status == 502
    assert body["error"] == "the agent of n1 did not answer within 10 s; it may be too old, or stuck"
    assert body["sources"] == ["agent"]
    assert event["ended"]
    assert "did not answer within 10 s; it may be too old" in event["error"]


async def test_the_end_of_the_server_ends_who_waits_for_an_answer_at_once(server: RunningServer) -> None:
    async with server.agent() as agent:
        await agent.register()
        asking = asyncio.create_task(server.ask(get("/api/v1/nodes/n1/logs", key=None), of="admin"))
        await agent.until(lambda: agent.of(LogsRequest))

        server.stop()
        async with asyncio.timeout(5):
            answer = await asking

    assert answer.status == 502
    assert json.loads(answer.body)["error"] == "the server is ending"


async def test_a_node_that_went_away_is_said_to_have_no_stream_at_once(server: RunningServer) -> None:
    async with server.agent() as agent:
        await agent.register()
    await server.until("nodes/n1", lambda node: node["state"] != "ready")

    answer = await server.ask(get("/api/v1/nodes/n1/logs", key=None), of="admin")

    assert answer.status == 502
    assert "has a stream to this server" in json.loads(answer.body)["error"]
