"""A server process that is stopped, killed or started anew, seen by agents over real sockets: nothing moves, nothing
runs twice, and what an operator wanted is still wanted."""

import asyncio
import signal
from collections.abc import Callable
from typing import Any

import pytest
from fakes.catalogs import catalog_data
from fakes.linked_agent import LinkedAgent
from fakes.nodes import a_shard, an_introduction
from real.house import House

from llmgw.core.fleet.shards import Phase, ShardState
from llmgw.wire.frames import StartShard, StopShard

pytestmark = pytest.mark.slow

NODES = {"heartbeat": "500ms", "unreachable_after": "2s", "lost_after": "2s", "start_grace": "5s"}
STALL_S = 9.0
"""The server stands still for longer than it takes, with the times above, to call a silent node lost, twice over."""


class _Agents:
    """Scripted agents of a house, each with signs of life until it is dropped."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._beats: dict[str, asyncio.Task[None]] = {}
        self.all: dict[str, LinkedAgent] = {}

    async def join(self, name: str, *shards: ShardState) -> LinkedAgent:
        agent = self.all[name] = LinkedAgent(int(self._house.listening["agents"].rpartition(":")[2]))
        await agent.open()
        await agent.register(an_introduction(name, shards=shards, labels={"name": name}))
        self._beats[name] = asyncio.create_task(agent.beat())
        return agent

    async def drop(self, name: str) -> None:
        """Hang up without waiting for the other end, which may stand still."""
        self._beats.pop(name).cancel()
        self.all[name].vanish()
        await self.all.pop(name).until_closed()

    async def drop_all(self) -> None:
        for name in tuple(self.all):
            await self.drop(name)


async def _ask(house: House, *arguments: str) -> Any:
    return await asyncio.to_thread(house.json, *arguments)


async def _until(house: House, verb: str, condition: Callable[[Any], Any], within_s: float = 20.0) -> Any:
    found: Any = None
    try:
        async with asyncio.timeout(within_s):
            # The server tells nobody that something changed.
            while not condition(found := await _ask(house, verb)):  # noqa: ASYNC110
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise AssertionError(f"ctl {verb} not within {within_s} s: {found}") from None
    return found


async def test_a_server_that_stood_still_declares_no_node_lost_and_moves_nothing(
    make_house: Callable[..., House],
) -> None:
    house = make_house()
    await asyncio.to_thread(house.start_server, nodes=NODES)
    models = [
        {"name": model, "profiles": [{"node_selector": {"name": node}}]}
        for model, node in (("gemma", "n1"), ("other", "n2"))
    ]
    await asyncio.to_thread(house.apply, catalog_data(*models))
    agents = _Agents(house)
    ready = a_shard(port=9001, generation=(1, 900)), a_shard("other", port=9002, generation=(1, 901))
    patient = await agents.join("n1", ready[0])
    await agents.join("n2", ready[1])
    await agents.join("n3")
    await _until(house, "models", lambda rows: [row["ready"] for row in rows] == [1, 1])
    process = house.processes["server"]

    process.send_signal(signal.SIGSTOP)
    # Agents whose pings nobody answers hang up in the meantime, as two of the three do here.
    await agents.drop("n2")
    await agents.drop("n3")
    # It is the passing of time that is tested.
    await asyncio.sleep(STALL_S)
    process.send_signal(signal.SIGCONT)
    await _until(house, "status", lambda status: True)
    returned = await agents.join("n2", ready[1])
    await agents.join("n3")
    nodes = await _until(house, "nodes", lambda rows: [row["state"] for row in rows] == ["ready"] * 3)
    # One more that goes now is lost when the grace after the stall is over, and so would the others be by then.
    await agents.join("n4")
    await agents.drop("n4")
    await _until(house, "nodes", lambda rows: [row["state"] for row in rows if row["id"] == "n4"] == ["lost"])
    status = await _ask(house, "status")
    told = [f for agent in agents.all.values() for f in agent.of(StartShard) + agent.of(StopShard)]
    await agents.drop_all()

    texts = [event["text"] for row in nodes for event in row["events"]]
    assert "the timers of all nodes start again" in house.log("server")
    assert not [text for text in texts if text.startswith("lost")]
    assert status["alarm"] is None
    assert status["nodes"] == {"ready": 3, "lost": 1}
    assert told == []
    assert patient.closed is not None
    assert returned.closed is not None


async def test_a_server_that_is_killed_and_started_anew_takes_over_what_runs(
    make_house: Callable[..., House],
) -> None:
    """RUN-5."""
    house = make_house()
    await asyncio.to_thread(house.start_server, nodes=NODES)
    models = [{"name": name} for name in ("gemma", "left", "edited", "failing", "missing")]
    await asyncio.to_thread(house.apply, catalog_data(*models))
    agents = _Agents(house)
    await agents.join("n1")
    await agents.join("n2")
    await asyncio.to_thread(house.ctl, "nodes", "cordon", "n2")
    await agents.drop_all()
    await asyncio.to_thread(
        house.apply,
        catalog_data(
            *(m for m in models if m["name"] not in ("left", "edited")),
            {"name": "edited", "profiles": [{"context": 4096}]},
        ),
        "--prune",
    )
    house.kill("server")
    await asyncio.to_thread(house.start_server, nodes=NODES)

    held = await _ask(house, "status")
    first = await agents.join(
        "n1",
        a_shard("gemma", port=9001, generation=(1, 91)),
        a_shard("left", port=9002, generation=(1, 92)),
        a_shard("edited", port=9003, generation=(1, 93), fingerprint="0123456789abcdef"),
        a_shard("failing", phase=Phase.FAILED, generation=(1, 94)),
    )
    waiting = first.of(StartShard) + first.of(StopShard)
    await agents.join("n2")
    await first.stopped("left.0.0")
    missing = await first.started("missing.0.0")
    again = await first.started("failing.0.0")
    replicas = {row["id"]: row for row in await _ask(house, "replicas")}
    nodes = {row["id"]: row for row in await _ask(house, "nodes")}
    started = {frame.spec.replica for agent in agents.all.values() for frame in agent.of(StartShard)}
    stopped = [frame.shard for agent in agents.all.values() for frame in agent.of(StopShard)]
    await agents.drop_all()

    assert "n1, n2 registered too" in held["hold"]
    assert waiting == []
    assert started == {"missing.0", "failing.0"}
    assert stopped == ["left.0.0"]
    assert replicas["edited.0"]["stale"] == "stale"
    assert replicas["failing.0"]["failures"] == 1
    assert nodes["n2"]["state"] == "cordoned"
    assert missing.generation.epoch == again.generation.epoch == 2
