"""A shard that nobody promised memory to is reckoned when its weights are there, and not launched into too little."""

from pathlib import Path

import pytest
from fakes.agent import QUICK, FakeAgent
from fakes.scripted_engine import FakeEngine
from msgspec.structs import replace

from llmgw.agent.reckoning import HOW, reckoned
from llmgw.core.fleet.shards import Claim, Gang, Phase
from llmgw.core.placement.need import Need
from llmgw.core.units import GIB

SOON = replace(QUICK, room_s=0.2, poll_room_s=0.05)
HUGE = Need(memory_bytes=600_000 * GIB, estimated_bytes=500_000 * GIB)


async def test_what_the_engine_reckons_is_claimed_beside_what_was_promised(tmp_path: Path) -> None:
    agent = FakeAgent(tmp_path)
    engine, spec = FakeEngine(needs=HUGE), agent.spec()
    promised = replace(spec, claim=Claim(disk_bytes=7))

    bare = await reckoned(spec, engine, agent.weights, 4)
    claimed = await reckoned(promised, engine, agent.weights, 4)

    assert bare.claim == Claim(memory_bytes=500_000 * GIB)
    assert claimed.claim == Claim(memory_bytes=500_000 * GIB, disk_bytes=7)


@pytest.mark.parametrize(
    "given",
    [
        {"claim": Claim(memory_bytes=5)},
        {"profile": {"min_memory_gb": 1.0}},
        {"profile": {"gpus": 1}},
        {"gang": Gang(addresses=("a", "b"), port=21000)},
    ],
)
async def test_what_is_known_or_cannot_be_reckoned_well_stays_as_it_is(
    tmp_path: Path, given: dict[str, object]
) -> None:
    agent = FakeAgent(tmp_path)
    spec = replace(agent.spec(**given.pop("profile", {})), **given)  # type: ignore[arg-type] # fields by name

    assert await reckoned(spec, FakeEngine(needs=HUGE), agent.weights, 4) is spec


async def test_a_shard_whose_weights_need_more_than_there_is_fails_with_the_estimate_and_nothing_is_launched(
    tmp_path: Path,
) -> None:
    async with FakeAgent(tmp_path, timings=SOON) as agent:
        agent.home.engines["fake"].needs = HUGE  # type: ignore[attr-defined] # the fake's own
        agent.supervisor.start(agent.spec())
        failed = await agent.phase(Phase.FAILED)

    assert failed.reason is not None
    assert "needs 488.3 TiB of main memory" in failed.reason
    assert failed.reason.endswith(HOW)
    assert Phase.STARTING not in agent.phases()
