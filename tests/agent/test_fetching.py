"""A shard whose weights are elsewhere: fetching is a phase, its progress no transition, and its limits are its own."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from fakes.agent import QUICK, FakeAgent
from fakes.hub import FakeHub
from fakes.waiting import until
from fakes.weights_server import Manner, WeightsServer

from llmgw.core.fleet.shards import Phase
from llmgw.core.fleet.weights import cache_name_of
from llmgw.core.ids import Generation
from llmgw.wire.frames import LookFor, Register, RemoveWeights, StartShard, StopShard, WeightsRemoved

CONTENT = b"GGUF" + bytes(1_000_000)
TIMINGS = msgspec.structs.replace(QUICK, progress_s=0.05, silent_fetch_s=1.0, retry_fetch_s=0.02)
FIRST = Generation(1, 1)


@pytest.fixture
def server() -> Iterator[WeightsServer]:
    with WeightsServer() as server:
        yield server


@pytest.mark.slow
async def test_a_shard_fetches_says_how_far_it_is_starts_and_shows_no_progress_any_more(
    tmp_path: Path, server: WeightsServer
) -> None:
    url = server.serve("/m.gguf", CONTENT, Manner(pace_s=0.05))
    async with FakeHub() as hub, FakeAgent(tmp_path, (hub.port,), timings=TIMINGS) as agent:
        await hub.until(lambda: hub.of(Register))
        await hub.send(StartShard(seq=1, spec=agent.spec(weights=url)))
        ready = await hub.phase(Phase.READY)
        states = hub.states()

    told = [state.progress for state in states if state.progress is not None]
    entered = [
        a.phase for a, b in zip(states, [None, *states], strict=False) if b is None or a.phase != b.phase
    ]
    assert entered == [Phase.PENDING, Phase.FETCHING, Phase.STARTING, Phase.READY]
    assert {progress.total_bytes for progress in told} == {None, len(CONTENT)} or len(told) > 1
    assert [p.done_bytes for p in told] == sorted(p.done_bytes for p in told)
    assert 0 < told[-1].done_bytes <= len(CONTENT)
    assert len({state.since_s for state in states if state.phase == Phase.FETCHING}) == 1
    assert ready.progress is None


@pytest.mark.slow
async def test_starting_has_its_whole_time_however_long_fetching_took(
    tmp_path: Path, server: WeightsServer
) -> None:
    url = server.serve("/m.gguf", CONTENT, Manner(pace_s=0.1))
    timings = msgspec.structs.replace(TIMINGS, start_s=1.0)
    async with FakeAgent(tmp_path, timings=timings) as agent:
        agent.supervisor.start(agent.spec("--load", "0.3", weights=url))
        ready = await agent.phase(Phase.READY)
        fetching = next(state for state in agent.states() if state.phase == Phase.FETCHING)

    assert (ready.since_s or 0) - (fetching.since_s or 0) > 1.5


@pytest.mark.slow
async def test_eight_shards_make_one_download_and_all_become_ready(
    tmp_path: Path, server: WeightsServer
) -> None:
    url = server.serve("/m.gguf", CONTENT, Manner(pace_s=0.05))
    names = [f"m.{number}.0" for number in range(8)]
    async with FakeAgent(tmp_path, timings=TIMINGS) as agent:
        for name in names:
            agent.supervisor.start(agent.spec(shard=name, weights=url))
        for name in names:
            await agent.phase(Phase.READY, name)
        progressed = [name for name in names if any(state.progress for state in agent.states(name))]

    assert len(server.gets()) == 1
    assert progressed == names


@pytest.mark.slow
async def test_one_of_two_that_is_stopped_while_it_waits_leaves_the_download_to_the_other(
    tmp_path: Path, server: WeightsServer
) -> None:
    url = server.serve("/m.gguf", CONTENT, Manner(pace_s=0.1))
    async with FakeAgent(tmp_path, timings=TIMINGS) as agent:
        agent.supervisor.start(agent.spec(shard="m.0.0", weights=url))
        agent.supervisor.start(agent.spec(shard="m.1.0", weights=url))
        await until(lambda: any(state.progress for state in agent.states("m.0.0")))
        agent.supervisor.stop("m.0.0", FIRST, "enough")
        stopped = await agent.phase(Phase.STOPPED, "m.0.0", within_s=2.0)
        await agent.phase(Phase.READY, "m.1.0")

    assert stopped.reason == "enough"
    assert stopped.progress is None
    assert len(server.gets()) == 1


async def test_a_stop_of_the_only_one_ends_the_download_and_its_partial_stays_for_the_next(
    tmp_path: Path, server: WeightsServer
) -> None:
    url = server.serve("/m.gguf", CONTENT, Manner(pace_s=0.1))
    async with FakeAgent(tmp_path, timings=TIMINGS) as agent:
        agent.supervisor.start(agent.spec(weights=url))
        await until(lambda: any(s.progress and s.progress.done_bytes for s in agent.states()))
        agent.supervisor.stop("m.0.0", FIRST, "enough")
        await agent.phase(Phase.STOPPED, within_s=2.0)
        await until(lambda: not agent.fetcher.fetching())
        left = list((tmp_path / "weights").rglob("*.partial"))

    assert len(left) == 1
    assert agent.supervisor.shards() == ()


async def test_a_download_that_cannot_be_had_is_a_failed_shard_in_words(
    tmp_path: Path, server: WeightsServer
) -> None:
    async with FakeAgent(tmp_path, timings=TIMINGS) as agent:
        agent.supervisor.start(agent.spec(weights=f"{server.url}/none.gguf"))
        failed = await agent.phase(Phase.FAILED)

    assert "has no such file (it answers 404)" in (failed.reason or "")
    assert failed.progress is None


async def test_trouble_that_may_pass_is_the_reason_while_it_lasts(
    tmp_path: Path, server: WeightsServer
) -> None:
    url = server.serve("/m.gguf", CONTENT)
    server.manner = Manner(status=503)
    async with FakeAgent(tmp_path, timings=TIMINGS) as agent:
        agent.supervisor.start(agent.spec(weights=url))
        failed = await agent.phase(Phase.FAILED)

    reasons = [state.reason for state in agent.states() if state.phase == Phase.FETCHING]
    assert any("answers 503; trying again" in (reason or "") for reason in reasons)
    assert "no byte came for 1 s" in (failed.reason or "")


async def test_what_the_engine_refuses_is_never_fetched(tmp_path: Path, server: WeightsServer) -> None:
    url = server.serve("/m.gguf", CONTENT)
    async with FakeAgent(tmp_path, timings=TIMINGS) as agent:
        agent.supervisor.start(agent.spec("--forbidden", weights=url))
        await agent.phase(Phase.FAILED)

    assert server.requests == []


async def test_the_server_hears_what_was_removed_and_why_the_rest_was_not(
    tmp_path: Path, server: WeightsServer
) -> None:
    url = server.serve("/m.gguf", CONTENT, Manner(stall_after=1000))
    unwanted, fetched = cache_name_of("hf://org/repo/x.gguf") or "", cache_name_of(url) or ""
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / unwanted).write_bytes(bytes(10))
    async with FakeHub() as hub, FakeAgent(tmp_path, (hub.port,), timings=TIMINGS) as agent:
        await hub.until(lambda: hub.of(Register))
        await hub.send(StartShard(seq=1, spec=agent.spec(weights=url)))
        await hub.phase(Phase.FETCHING)
        await hub.send(RemoveWeights(seq=2, names=(unwanted, fetched, ".."), request_id=77))
        answer = (await hub.until(lambda: hub.of(WeightsRemoved)))[0]
        await hub.send(StopShard(seq=3, shard="m.0.0", generation=FIRST))

    assert (answer.request_id, answer.removed, answer.freed_bytes) == (77, (unwanted,), 10)
    assert answer.refused[fetched] == "m.0.0 uses it (fetching)"
    assert "it is a path" in answer.refused[".."]


async def test_what_the_server_looks_for_is_found_and_reported(tmp_path: Path) -> None:
    async with FakeHub() as hub, FakeAgent(tmp_path, (hub.port,)) as agent:
        await hub.until(lambda: hub.of(Register))
        before = agent.stock.holdings()
        await hub.send(LookFor(sources=(f"file://{agent.weights}",)))
        found = await until(agent.stock.holdings)

    assert before == ()
    assert [(h.path, h.size_bytes, h.source) for h in found] == [
        (str(agent.weights), 4, f"file://{agent.weights}")
    ]
