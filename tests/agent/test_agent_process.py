"""`llmgw agent` as a process, with the real engine and the real model."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from fakes.agent_process import AgentProcess
from fakes.hub import FakeHub
from real.gemma import model_path

from llmgw.agent.engine_process import kill_undescribed
from llmgw.agent.health import ask
from llmgw.agent.main import run_agent
from llmgw.agent.processes import read_stat
from llmgw.config.agent import AgentConfig
from llmgw.core.fleet.catalog import Profile
from llmgw.core.fleet.shards import Phase, ShardSpec
from llmgw.core.ids import Generation
from llmgw.wire.frames import Heartbeat, Register, StartShard, StopShard

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
async def _no_engine_is_left(tmp_path: Path) -> AsyncIterator[None]:
    yield
    await kill_undescribed(tmp_path / "state")


def gemma_spec(weights: Path | None = None) -> ShardSpec:
    path = weights or model_path()
    profile = Profile(name="cpu", engine="llama.cpp", weights=f"file://{path}", context=512, parallel=1)
    return ShardSpec(
        shard="gemma.0.0",
        replica="gemma.0",
        model="gemma",
        ordinal=0,
        generation=Generation(1, 1),
        fingerprint=profile.fingerprint(),
        profile=profile,
    )


def lives(pid: int | None) -> bool:
    stat = read_stat(pid or 0)
    return stat is not None and stat.is_alive


async def registered(hub: FakeHub, times: int = 1) -> Register:
    found: list[Register] = await hub.until(
        lambda: hub.of(Register) if len(hub.of(Register)) >= times else None, within_s=60
    )
    return found[-1]


async def test_an_agent_says_what_it_found_out_about_its_machine(tmp_path: Path) -> None:
    async with FakeHub() as hub:
        agent = AgentProcess(tmp_path, hub.address, labels={"rack": "b2"})
        await agent.start()
        said = (await registered(hub)).said
        beat = (await hub.until(lambda: hub.of(Heartbeat)))[0]
        status = await agent.end()

    machine = said.machine
    assert status == 0
    assert (said.node, said.address, said.pool, said.labels) == ("n1", "127.0.0.1", "default", {"rack": "b2"})
    assert machine.hostname
    assert machine.kernel
    assert machine.processor.cores
    assert machine.processor.vector is not None
    assert 0 < (machine.memory.available_bytes or 0) < (machine.memory.total_bytes or 0)
    [state] = machine.filesystems or ()
    assert state.holds == ("state", "weights")
    assert 0 < (state.free_bytes or 0) < (state.total_bytes or 0)
    assert [(e.engine, e.form, e.problem) for e in said.engines or ()] == [("llama.cpp", "xllamacpp", None)]
    assert beat.memory is not None
    assert beat.engines is None


async def test_the_real_model_is_started_outlives_its_agent_and_is_adopted_by_the_next(
    tmp_path: Path,
) -> None:
    async with FakeHub() as hub:
        agent = AgentProcess(tmp_path, hub.address)
        await agent.start()
        await registered(hub)
        await hub.send(StartShard(seq=1, spec=gemma_spec()))
        ready = await hub.phase(Phase.READY, "gemma.0.0", within_s=60)
        killed = await agent.end(signal.SIGKILL)
        status, body = await ask(ready.host or "", ready.port or 0, "/health", within_s=10)
        await agent.start()
        second = await registered(hub, times=2)
        await hub.send(StopShard(seq=1, shard="gemma.0.0", generation=Generation(1, 1)))
        await hub.phase(Phase.STOPPED, "gemma.0.0")
        await agent.end()

    assert hub.phases("gemma.0.0") == [Phase.PENDING, Phase.STARTING, Phase.READY, Phase.STOPPED]
    assert killed == -9
    assert (status, body) == (200, b'{"status":"ok"}')
    assert second.said.shards == (ready,)
    assert not lives(ready.pid)
    assert list((agent.state_dir / "records").iterdir()) == []


async def test_sigterm_leaves_the_engines_and_a_start_that_comes_again_starts_no_second(
    tmp_path: Path,
) -> None:
    async with FakeHub() as hub:
        agent = AgentProcess(tmp_path, hub.address)
        await agent.start()
        await registered(hub)
        await hub.send(StartShard(seq=1, spec=gemma_spec()))
        first = await hub.phase(Phase.READY, "gemma.0.0", within_s=60)
        status = await agent.end(signal.SIGTERM)
        lived = lives(first.pid)
        await agent.start()
        await registered(hub, times=2)
        count = len(hub.states("gemma.0.0"))
        await hub.send(StartShard(seq=2, spec=gemma_spec()))
        again = await hub.until(lambda: hub.states("gemma.0.0")[count:])
        await hub.send(StopShard(seq=3, shard="gemma.0.0", generation=Generation(1, 1)))
        await hub.phase(Phase.STOPPED, "gemma.0.0")
        await agent.end()

    assert status == 0
    assert lived
    assert "engines keep running" in agent.words()
    assert again[0] == first
    assert not lives(first.pid)


async def test_an_agent_that_is_to_stop_its_engines_stops_them_all(tmp_path: Path) -> None:
    async with FakeHub() as hub:
        config = AgentConfig(server=(hub.address,), node="n1", state_dir=str(tmp_path / "state"))
        stop = asyncio.Event()
        agent = asyncio.create_task(run_agent(config, stop=stop, stop_engines=True))
        await registered(hub)
        await hub.send(StartShard(seq=1, spec=gemma_spec()))
        ready = await hub.phase(Phase.READY, "gemma.0.0", within_s=60)
        stop.set()
        await agent

    assert not lives(ready.pid)
    assert list((tmp_path / "state" / "records").iterdir()) == []


async def test_an_agent_of_another_name_on_a_folder_with_engines_says_what_becomes_of_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with FakeHub() as hub:
        for name in ("old", "new"):
            config = AgentConfig(server=(hub.address,), node=name, state_dir=str(tmp_path / "state"))
            stop = asyncio.Event()
            agent = asyncio.create_task(run_agent(config, stop=stop, stop_engines=name == "new"))
            await hub.until(lambda name=name: hub.of(Register) and hub.of(Register)[-1].said.node == name)
            if name == "old":
                await hub.send(StartShard(seq=1, spec=gemma_spec()))
                ready = await hub.phase(Phase.READY, "gemma.0.0", within_s=60)
            stop.set()
            await agent
    told = [
        record.message for record in caplog.records if "was called 'old' and is 'new' now" in record.message
    ]

    assert [shard.pid for shard in hub.of(Register)[-1].said.shards] == [ready.pid]
    assert len(told) == 1
    assert "'llmgw ctl nodes forget old'" in told[0]


async def test_the_agent_carries_no_server() -> None:
    script = "import sys, llmgw.agent.main; print(*sorted(m.partition('.')[0] for m in sys.modules))"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, stdout=asyncio.subprocess.PIPE
    )
    said, _ = await process.communicate()

    assert not set(said.decode().split()) & {"sqlalchemy", "aiosqlite", "litestar", "jinja2", "uvicorn"}


async def test_weights_that_are_none_are_a_failure_with_the_engine_s_own_words(tmp_path: Path) -> None:
    (tmp_path / "none.gguf").write_bytes(b"no weights at all")
    async with FakeHub() as hub:
        agent = AgentProcess(tmp_path, hub.address)
        await agent.start()
        await registered(hub)
        await hub.send(StartShard(seq=1, spec=gemma_spec(tmp_path / "none.gguf")))
        failed = await hub.phase(Phase.FAILED, "gemma.0.0", within_s=60)
        await agent.end()

    assert failed.exit_status == 1
    assert "invalid magic characters" in (failed.reason or "")
    assert any("invalid magic characters" in line for line in failed.tail)


async def test_a_second_agent_on_one_state_folder_says_who_holds_it(tmp_path: Path) -> None:
    async with FakeHub() as hub:
        first = AgentProcess(tmp_path, hub.address)
        await first.start()
        await registered(hub)
        (tmp_path / "second").mkdir()
        second = AgentProcess(tmp_path / "second", hub.address)
        await second.start("--state-dir", str(first.state_dir))
        status = await second.ended()
        await first.end()

    assert status == 1
    assert f"is held by another llmgw agent, pid {first.pid}" in second.words()
    assert len(hub.connections) == 1


async def test_the_command_line_wins_over_the_file(tmp_path: Path) -> None:
    async with FakeHub() as hub:
        agent = AgentProcess(tmp_path, "127.0.0.1:1")
        await agent.start("--server", hub.address, "--node", "n7")
        said = (await registered(hub)).said
        await agent.end()

    assert said.node == "n7"


@pytest.mark.parametrize(
    ("server", "arguments", "words"),
    [
        ("192.0.2.1:8443", (), "insecure_plaintext"),
        ("127.0.0.1:1", ("--server", "192.0.2.1:8443"), "insecure_plaintext"),
        ("127.0.0.1:1", ("--node", "a b"), "node name 'a b' is not usable"),
        ("127.0.0.1:1", ("--state-dir", "/proc/none"), "state_dir /proc/none cannot be made"),
    ],
)
async def test_what_cannot_be_used_ends_the_agent_with_the_reason(
    tmp_path: Path, server: str, arguments: tuple[str, ...], words: str
) -> None:
    agent = AgentProcess(tmp_path, server)
    await agent.start(*arguments)

    status = await agent.ended()

    assert status == 1
    assert words in agent.words()
    assert "Traceback" not in agent.words()
