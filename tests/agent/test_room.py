"""Waiting for memory before a launch."""

import asyncio
from pathlib import Path

from fakes.agent import QUICK, FakeAgent
from msgspec.structs import replace

from llmgw.agent.room import Holder, largest, main_memory_short, parse_held, wait_for_room
from llmgw.core.fleet.catalog import Profile
from llmgw.core.fleet.shards import Phase
from llmgw.core.ids import Generation

STATUS = "Name:\tx\nVmRSS:\t  9000 kB\nRssAnon:\t  3000 kB\nRssFile:\t  5000 kB\nRssShmem:\t  1000 kB\n"
SOON = replace(QUICK, room_s=0.4, poll_room_s=0.05)


def profile(**given: object) -> Profile:
    return Profile(name="p", engine="fake", weights="file:///w", **given)  # type: ignore[arg-type] # fields by name


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


def test_a_profile_that_asks_for_nothing_or_little_is_never_short() -> None:
    assert main_memory_short(profile()) is None
    assert main_memory_short(profile(min_memory_gb=0.001)) is None


async def test_a_launch_goes_on_as_soon_as_the_memory_has_come_back(tmp_path: Path) -> None:
    answers = iter(["too little", "too little", None])
    noted: list[str] = []
    home = FakeAgent(tmp_path, timings=replace(SOON, room_s=60.0)).home

    short = await wait_for_room(
        profile(), home, asyncio.Event(), noted.append, checks=(lambda _: None, lambda _: next(answers))
    )

    assert short is None
    assert noted == ["waits for memory: too little"]


async def test_a_shard_that_is_told_to_end_waits_no_longer(tmp_path: Path) -> None:
    told = asyncio.Event()
    home = FakeAgent(tmp_path, timings=replace(SOON, room_s=60.0)).home

    short = await wait_for_room(profile(), home, told, lambda _: told.set(), checks=(lambda _: "too little",))

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
