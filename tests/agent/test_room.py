"""Waiting for memory before a launch."""

import asyncio
from pathlib import Path

from fakes.agent import QUICK, FakeAgent
from msgspec.structs import replace

from llmgw.agent.discovery.gpus.sighting import Sighting
from llmgw.agent.room import (
    Holder,
    gpu_memory_short,
    gpu_short,
    largest,
    main_memory_short,
    parse_held,
    wait_for_room,
)
from llmgw.core.fleet.catalog import Profile
from llmgw.core.fleet.hardware import Gpu, GpuProcess
from llmgw.core.fleet.shards import Claim, Phase, ShardSpec
from llmgw.core.ids import Generation
from llmgw.core.units import GIB

STATUS = "Name:\tx\nVmRSS:\t  9000 kB\nRssAnon:\t  3000 kB\nRssFile:\t  5000 kB\nRssShmem:\t  1000 kB\n"
SOON = replace(QUICK, room_s=0.4, poll_room_s=0.05)


H100 = Gpu(uuid="GPU-1", name="H100", total_bytes=80 * GIB, free_bytes=79 * GIB)


def a_spec(claim: Claim | None = None, **given: object) -> ShardSpec:
    profile = Profile(name="p", engine="fake", weights="file:///w", **given)  # type: ignore[arg-type] # fields by name
    return ShardSpec(
        shard="m.0.0",
        replica="m.0",
        model="m",
        ordinal=0,
        generation=Generation(1, 1),
        fingerprint="f",
        profile=profile,
        claim=claim,
    )


def test_memory_that_no_file_backs_is_held() -> None:
    assert parse_held(STATUS) == 4000 * 1024
    assert parse_held("Name:\tkthreadd\n") == 0


def test_the_largest_holders_are_named(tmp_path: Path) -> None:
    for pid, held in ((4, 100), (5, 300), (6, 200), (7, 0)):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "status").write_text(f"RssAnon:\t{held} kB\n")
        (tmp_path / str(pid) / "comm").write_text(f"program-{pid}\n")
    (tmp_path / "8").mkdir()
    (tmp_path / "uptime").touch()

    found = largest(2, tmp_path)

    assert found == (
        Holder(pid=5, command="program-5", held_bytes=300 * 1024),
        Holder(pid=6, command="program-6", held_bytes=200 * 1024),
    )
    assert str(found[0]) == "pid 5 (program-5) 300.0 KiB"


def test_a_shard_that_asks_for_nothing_or_little_is_never_short(tmp_path: Path) -> None:
    home = FakeAgent(tmp_path).home

    assert main_memory_short(a_spec(), home) is None
    assert main_memory_short(a_spec(min_memory_gb=0.001), home) is None


def test_what_a_shard_was_promised_counts_and_not_what_its_profile_says(tmp_path: Path) -> None:
    home = FakeAgent(tmp_path).home

    assert main_memory_short(a_spec(Claim(memory_bytes=1024), min_memory_gb=500_000), home) is None
    assert "needs 488.3 TiB of main memory" in (
        main_memory_short(a_spec(Claim(memory_bytes=500_000 * GIB)), home) or ""
    )


def test_a_gpu_that_has_what_is_asked_for_is_not_short() -> None:
    assert gpu_short(H100, 79 * GIB, ()) is None
    # Drivers keep a little of every GPU.
    assert gpu_short(H100, None, ()) is None


def test_a_gpu_that_somebody_fills_is_short_and_names_the_largest_holders() -> None:
    full = replace(H100, free_bytes=10 * GIB)
    holders = (
        GpuProcess(pid=5, command="python", held_bytes=3 * GIB),
        GpuProcess(pid=6, command=None, held_bytes=60 * GIB),
        GpuProcess(pid=7, command="Xorg", held_bytes=None),
    )

    assert gpu_short(full, 20 * GIB, holders) == (
        "needs 20.0 GiB of the memory of GPU GPU-1 (H100), 10.0 GiB of 80.0 GiB are free; "
        "most is held by pid 6 (?) 60.0 GiB, pid 5 (python) 3.0 GiB, pid 7 (Xorg) -"
    )
    assert (gpu_short(full, None, holders) or "").startswith("needs 72.0 GiB of the memory of GPU GPU-1")


def test_a_gpu_of_which_nobody_knows_enough_is_not_short_and_says_so_where_it_is() -> None:
    unified = replace(H100, unified=True, free_bytes=0)

    assert gpu_short(replace(H100, free_bytes=None), 20 * GIB, None) is None
    assert gpu_short(unified, 20 * GIB, None) is None
    assert (gpu_short(replace(H100, free_bytes=0), GIB, None) or "").endswith("does not tell who holds it")
    assert (gpu_short(replace(H100, free_bytes=0), GIB, ()) or "").endswith(
        "nobody that can be seen holds it"
    )


def test_a_gpu_that_broke_or_went_is_told_in_the_drivers_words(tmp_path: Path) -> None:
    lost = Sighting(gpus=(replace(H100, problem="GPU is lost"),))
    seen = [lost, Sighting(problem="Driver/library version mismatch")]
    home = replace(FakeAgent(tmp_path).home, gpus=lambda: seen.pop(0))
    spec = a_spec(Claim(gpus=("GPU-1",)))

    said = [gpu_memory_short(spec, home), gpu_memory_short(spec, home), gpu_memory_short(a_spec(), home)]

    assert said == [
        "needs GPU GPU-1 (H100), which cannot be used: GPU is lost",
        "needs GPU GPU-1, which is not on this node any more: Driver/library version mismatch",
        None,
    ]


async def test_a_relaunch_waits_until_its_gpu_has_been_given_back(tmp_path: Path) -> None:
    held = Sighting(
        gpus=(replace(H100, free_bytes=GIB),),
        holders={"GPU-1": (GpuProcess(pid=5, command="python", held_bytes=70 * GIB),)},
    )
    seen = iter([held, held, Sighting(gpus=(H100,))])
    agent = FakeAgent(tmp_path, timings=replace(SOON, room_s=60.0), gpus=lambda: next(seen))
    async with agent:
        agent.supervisor.start(replace(agent.spec(), claim=Claim(gpus=("GPU-1",))))
        await agent.phase(Phase.READY)

    waiting = [state.reason for state in agent.states() if state.phase == Phase.PENDING and state.reason]
    assert waiting == [
        "waits for memory: needs 72.0 GiB of the memory of GPU GPU-1 (H100), 1.0 GiB of 80.0 GiB are free; "
        "most is held by pid 5 (python) 70.0 GiB"
    ]
    assert next(seen, None) is None


async def test_a_launch_goes_on_as_soon_as_the_memory_has_come_back(tmp_path: Path) -> None:
    answers = iter(["too little", "too little", None])
    noted: list[str] = []
    home = FakeAgent(tmp_path, timings=replace(SOON, room_s=60.0)).home

    short = await wait_for_room(
        a_spec(), home, asyncio.Event(), noted.append, (lambda *_: None, lambda *_: next(answers))
    )

    assert short is None
    assert noted == ["waits for memory: too little"]


async def test_a_shard_that_is_told_to_end_waits_no_longer(tmp_path: Path) -> None:
    told = asyncio.Event()
    home = FakeAgent(tmp_path, timings=replace(SOON, room_s=60.0)).home

    short = await wait_for_room(a_spec(), home, told, lambda _: told.set(), (lambda *_: "too little",))

    assert short is None


async def test_memory_that_does_not_come_back_fails_the_shard_and_names_who_holds_it(tmp_path: Path) -> None:
    async with FakeAgent(tmp_path, timings=SOON) as agent:
        agent.supervisor.start(agent.spec(min_memory_gb=500_000))
        failed = await agent.phase(Phase.FAILED)

    waiting, reason = agent.states()[1], failed.reason or ""
    assert (waiting.phase, failed.pid) == (Phase.PENDING, None)
    assert (waiting.reason or "").startswith("waits for memory: needs 488.3 TiB of main memory")
    assert reason.startswith("node n1: needs 488.3 TiB of main memory, ")
    assert "most is held by pid " in reason
    assert "(waited 0 s for it)" in reason
    assert list((tmp_path / "records").iterdir()) == []


async def test_a_stop_while_waiting_for_memory_is_a_stop(tmp_path: Path) -> None:
    async with FakeAgent(tmp_path, timings=replace(SOON, room_s=60.0)) as agent:
        agent.supervisor.start(agent.spec(min_memory_gb=500_000))
        await asyncio.sleep(0)
        agent.supervisor.stop("m.0.0", Generation(1, 1), "enough")
        await agent.phase(Phase.STOPPED)

    assert Phase.FAILED not in agent.phases()
    assert agent.home.ports == set()
