"""Ranks that serve no HTTP, as real processes: watched as such, adopted as such, and ended with their head (RUN-11)."""

from pathlib import Path

import pytest
from fakes.agent import QUICK, FakeAgent
from msgspec.structs import replace

from llmgw.agent.processes import read_stat
from llmgw.core.fleet.shards import Gang, Phase, ShardSpec
from llmgw.core.ids import Generation

pytestmark = pytest.mark.slow

FIRST = Generation(1, 1)
TIMINGS = replace(QUICK, settled_s=0.3)
GANG = Gang(addresses=("127.0.0.1", "127.0.0.1"), port=0)


def follower(agent: FakeAgent, *args: str) -> ShardSpec:
    """Rank 1 of two; whoever asks its /health is told that it is loading."""
    return replace(agent.spec("--never-ready", *args), rank=1, gang=GANG)


async def test_it_is_ready_without_being_asked_and_says_of_how_many_it_is_one(tmp_path: Path) -> None:
    async with FakeAgent(tmp_path, timings=TIMINGS) as agent:
        agent.supervisor.start(follower(agent))
        ready = await agent.phase(Phase.READY)

    assert agent.phases()[:3] == [Phase.PENDING, Phase.STARTING, Phase.READY]
    assert (ready.rank, ready.ranks) == (1, 2)


async def test_one_that_ends_by_itself_has_failed(tmp_path: Path) -> None:
    switch = tmp_path / "switch"
    async with FakeAgent(tmp_path, timings=TIMINGS) as agent:
        agent.supervisor.start(follower(agent, "--die-when", str(switch)))
        await agent.phase(Phase.READY)
        switch.touch()
        failed = await agent.phase(Phase.FAILED)

    assert failed.reason == "fake ended with status 3 while ready: cause: somebody asked for it"


async def test_one_that_was_to_go_with_its_head_and_does_is_stopped_as_it_should_be(tmp_path: Path) -> None:
    switch = tmp_path / "switch"
    async with FakeAgent(tmp_path, timings=TIMINGS) as agent:
        agent.supervisor.start(follower(agent, "--die-when", str(switch)))
        await agent.phase(Phase.READY)
        agent.supervisor.drain("m.0.0", FIRST, 600.0, "the model left the catalog")
        await agent.phase(Phase.DRAINING)
        switch.touch()
        stopped = await agent.phase(Phase.STOPPED)

    assert (stopped.reason, stopped.exit_status) == ("the model left the catalog", 3)
    assert agent.supervisor.shards() == ()


async def test_it_is_adopted_ready_and_goes_on_unasked(tmp_path: Path) -> None:
    before = FakeAgent(tmp_path, timings=TIMINGS)
    await before.__aenter__()
    before.supervisor.start(follower(before))
    ready = await before.phase(Phase.READY)
    await before.leave()

    async with FakeAgent(tmp_path, timings=TIMINGS) as after:
        (adopted,) = after.supervisor.shards()
        stat = read_stat(adopted.pid or 0)
        after.supervisor.stop("m.0.0", FIRST, "enough")
        await after.phase(Phase.STOPPED)

    assert (adopted.phase, adopted.pid, adopted.rank) == (Phase.READY, ready.pid, 1)
    assert stat is not None
    assert Phase.FAILED not in after.phases()
