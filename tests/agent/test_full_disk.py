"""A full disk and one that turned read-only under an agent: new engines are refused in words, none that runs is lost.

The agent runs in a mount namespace of its own, with its state on a small tmpfs that nobody else sees.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from fakes.agent_process import AgentProcess
from fakes.hub import FakeHub
from fakes.scripted_engine import PROGRAM
from real.requirement import missing

from llmgw.agent.engine_process import kill_undescribed
from llmgw.agent.processes import read_stat
from llmgw.core.fleet.catalog import Profile
from llmgw.core.fleet.shards import Phase, ShardSpec
from llmgw.core.ids import Generation
from llmgw.wire.frames import Register, StartShard, StopShard

pytestmark = pytest.mark.slow

GENERATION = Generation(1, 1)
MOUNT = 'mount -t tmpfs -o size=512k tmpfs "$0" && exec "$@"'


class SmallDisk:
    """An agent whose state lies on a small filesystem of its own, and that filesystem."""

    def __init__(self, folder: Path, server: str) -> None:
        program = folder / "llama-server"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -I {PROGRAM} "$@"\n')
        program.chmod(0o755)
        self.agent = AgentProcess(folder, server, engines={"llama.cpp": str(program)})
        self.state_dir = self.agent.state_dir
        self.state_dir.mkdir()
        self.weights = folder / "weights.gguf"
        self.weights.write_bytes(b"GGUF")

    async def start(self) -> None:
        await self.agent.start(
            through=("unshare", "--mount", "--propagation", "private", "sh", "-c", MOUNT, str(self.state_dir))
        )

    async def start_again(self, beside: int | None) -> None:
        """Start an agent in the namespace in which the process `beside` lives."""
        await self.agent.start(through=("nsenter", "--mount", "--target", str(beside)))

    def fill(self, pid: int | None) -> None:
        """Write to the disk until nothing more goes onto it, as seen by process `pid`."""
        with (
            contextlib.suppress(OSError),
            Path(f"/proc/{pid}/root{self.state_dir}/filler").open("wb", 0) as file,
        ):
            while True:
                file.write(b"x" * 4096)

    async def make_read_only(self, pid: int | None) -> None:
        """Lay a read-only view of the folder over it, as a filesystem looks that turned read-only."""
        state = str(self.state_dir)
        command = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0"'
        process = await asyncio.create_subprocess_exec(
            "nsenter", "--mount", "--target", str(pid), "sh", "-c", command, state
        )
        assert await process.wait() == 0

    def spec(self, shard: str) -> ShardSpec:
        profile = Profile(name="p", engine="llama.cpp", weights=f"file://{self.weights}")
        return ShardSpec(
            shard=shard,
            replica=shard.rpartition(".")[0],
            model="m",
            ordinal=0,
            generation=GENERATION,
            fingerprint=profile.fingerprint(),
            profile=profile,
        )


@pytest.fixture
async def hub() -> AsyncIterator[FakeHub]:
    async with FakeHub() as hub:
        yield hub


@pytest.fixture
async def disk(tmp_path: Path, hub: FakeHub) -> AsyncIterator[SmallDisk]:
    if os.geteuid() != 0:
        missing("only root may mount the small filesystem that this test fills")
    disk = SmallDisk(tmp_path, hub.address)
    await disk.start()
    yield disk
    with contextlib.suppress(ProcessLookupError):
        await disk.agent.end(signal.SIGKILL)
    await kill_undescribed(disk.state_dir)


def lives(pid: int | None) -> bool:
    stat = read_stat(pid or 0)
    return stat is not None and stat.is_alive


async def test_a_full_disk_keeps_new_engines_from_being_launched_and_costs_none_that_runs(
    disk: SmallDisk, hub: FakeHub
) -> None:
    await hub.until(lambda: hub.of(Register))
    await hub.send(StartShard(seq=1, spec=disk.spec("m.0.0")))
    ready = await hub.phase(Phase.READY, "m.0.0")
    disk.fill(ready.pid)

    await hub.send(StartShard(seq=2, spec=disk.spec("m.1.0")))
    failed = await hub.phase(Phase.FAILED, "m.1.0")
    await disk.agent.end(signal.SIGKILL)
    await disk.start_again(beside=ready.pid)
    register = await hub.until(lambda: hub.of(Register)[1:])
    lived = lives(ready.pid)
    await hub.send(StopShard(seq=3, shard="m.0.0", generation=GENERATION, because="enough"))
    await hub.phase(Phase.STOPPED, "m.0.0")

    reason = failed.reason or ""
    assert Phase.STARTING not in hub.phases("m.1.0")
    assert "its record cannot be written to" in reason
    assert "No space left on device" in reason
    assert f"filesystem {disk.state_dir} (tmpfs) has 0 of {512 * 1024} bytes free" in reason
    assert register[0].said.shards == (ready,)
    assert lived
    assert not lives(ready.pid)


async def test_a_disk_that_turned_read_only_costs_no_engine_and_an_agent_still_adopts(
    disk: SmallDisk, hub: FakeHub
) -> None:
    await hub.until(lambda: hub.of(Register))
    await hub.send(StartShard(seq=1, spec=disk.spec("m.0.0")))
    ready = await hub.phase(Phase.READY, "m.0.0")
    await hub.send(StartShard(seq=9, spec=disk.spec("m.9.0")))
    ended = await hub.phase(Phase.READY, "m.9.0")
    await disk.make_read_only(ready.pid)

    await hub.send(StartShard(seq=2, spec=disk.spec("m.1.0")))
    failed = await hub.phase(Phase.FAILED, "m.1.0")
    await disk.agent.end(signal.SIGKILL)
    os.kill(ended.pid or 0, signal.SIGKILL)
    await disk.start_again(beside=ready.pid)
    register = await hub.until(lambda: hub.of(Register)[1:])
    await hub.send(StartShard(seq=3, spec=disk.spec("m.2.0")))
    refused = await hub.phase(Phase.FAILED, "m.2.0")
    lived = lives(ready.pid)
    await hub.send(StopShard(seq=4, shard="m.0.0", generation=GENERATION, because="enough"))
    stopped = await hub.phase(Phase.STOPPED, "m.0.0")

    for state in (failed, refused):
        assert "Read-only file system" in (state.reason or "")
        assert "and is read-only" in (state.reason or "")
    assert register[0].said.shards[0] == ready
    assert [state.phase for state in register[0].said.shards] == [Phase.READY, Phase.FAILED]
    assert lived
    assert stopped.reason == "enough"
    assert not lives(ready.pid)
