"""What a restarted agent makes of the engines of the one before, with real processes."""

import asyncio
import contextlib
import json
import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from fakes.agent import QUICK, FakeAgent
from fakes.hub import FakeHub
from fakes.waiting import until

from llmgw.agent.engine_process import EngineProcess, kill_undescribed
from llmgw.agent.output import tail
from llmgw.agent.processes import Mark, read_stat
from llmgw.agent.records import VERSION
from llmgw.core.fleet.shards import Phase, ShardState
from llmgw.core.ids import Generation
from llmgw.wire.frames import Register, StopShard

pytestmark = pytest.mark.slow

FIRST, SECOND = Generation(1, 1), Generation(1, 2)


def lives(pid: int | None) -> bool:
    stat = read_stat(pid or 0)
    return stat is not None and stat.is_alive


async def left_behind(
    folder: Path, *args: str, phase: Phase = Phase.READY, shards: int = 1
) -> list[ShardState]:
    """Start engines, and let their agent go as SIGTERM and SIGKILL let it go; returns where they were."""
    agent = FakeAgent(folder)
    await agent.__aenter__()
    names = [f"m.{number}.0" for number in range(shards)]
    for name in names:
        agent.supervisor.start(agent.spec(*args, shard=name))
    found = [await agent.phase(phase, name) for name in names]
    # Every step has been written down, as it is a moment after it was reported.
    await until(lambda: phases_on_disk(agent) == {phase})
    await agent.leave()
    return found


def phases_on_disk(agent: FakeAgent) -> set[str]:
    """Read what the records say at this moment; `Records.read` is for a start and clears what is being written."""
    return {
        json.loads(path.read_bytes())["state"]["phase"] for path in agent.home.records.folder.glob("*.json")
    }


def record_of(folder: Path, shard: str = "m.0.0") -> tuple[Path, dict[str, Any]]:
    path = folder / "records" / f"{shard}.json"
    return path, msgspec.json.decode(path.read_bytes())


async def test_an_adopted_engine_is_the_same_process_at_the_same_port_in_the_first_register(
    tmp_path: Path,
) -> None:
    [ready] = await left_behind(tmp_path)

    async with FakeHub() as hub, FakeAgent(tmp_path, (hub.port,)):
        [register] = await hub.until(lambda: hub.of(Register))
        lived = lives(ready.pid)
        await hub.send(StopShard(seq=1, shard="m.0.0", generation=FIRST, because="enough"))
        stopped = await hub.phase(Phase.STOPPED)

    assert register.said.shards == (ready,)
    assert lived
    assert (stopped.reason, stopped.exit_status) == ("enough", None)
    assert not lives(ready.pid)
    assert list((tmp_path / "records").iterdir()) == []


async def test_an_adopted_engine_goes_on_in_its_log_and_the_same_start_changes_nothing(
    tmp_path: Path,
) -> None:
    [ready] = await left_behind(tmp_path, "--chat", "0.05")
    log = tmp_path / "logs" / "m.0.0.log"
    before = tail(log, 1000)

    async with FakeAgent(tmp_path) as agent:
        refusal = agent.supervisor.start(agent.spec("--chat", "0.05"))
        again = agent.reported[-1]
        after = await until(lambda: len(now := tail(log, 1000)) > len(before) + 3 and now)

    assert refusal is None
    assert again == ready
    assert after[: len(before)] == before
    assert not (tmp_path / "logs" / "m.0.0.log.1").exists()


async def test_every_one_of_several_engines_is_adopted(tmp_path: Path) -> None:
    ready = await left_behind(tmp_path, shards=3)

    async with FakeAgent(tmp_path) as agent:
        adopted = agent.supervisor.shards()
        ports = set(agent.home.ports)

    assert [state.pid for state in adopted] == [state.pid for state in ready]
    assert ports == {state.port for state in ready}


async def test_the_children_of_an_adopted_engine_are_stopped_with_it_when_it_ignores_sigterm(
    tmp_path: Path,
) -> None:
    child_file = tmp_path / "child"
    agent = FakeAgent(tmp_path, stop_grace_s=0.3)
    await agent.__aenter__()
    agent.supervisor.start(agent.spec("--ignore-term", "--fork", str(child_file)))
    ready = await agent.phase(Phase.READY)
    await agent.leave()
    child = int(child_file.read_text())

    async with FakeAgent(tmp_path) as after:
        lived = lives(ready.pid) and lives(child)
        after.supervisor.stop("m.0.0", FIRST, "enough")
        await after.phase(Phase.STOPPED)

    assert lived
    assert not lives(ready.pid)
    assert not lives(child)


async def test_the_end_of_an_adopted_engine_is_noticed_at_once_and_its_status_said_to_be_unknown(
    tmp_path: Path,
) -> None:
    [ready] = await left_behind(tmp_path)

    slow_polls = msgspec.structs.replace(QUICK, poll_ready_s=60.0)
    async with FakeAgent(tmp_path, timings=slow_polls) as agent:
        os.kill(ready.pid or 0, signal.SIGKILL)
        failed = await agent.phase(Phase.FAILED, within_s=5.0)

    assert failed.reason == "fake ended (status unknown: it was adopted) while ready"
    assert failed.exit_status is None
    assert failed.tail[0].startswith("engine starts on")


async def test_an_engine_that_was_starting_becomes_ready_under_the_next_agent(tmp_path: Path) -> None:
    switch = tmp_path / "loaded"
    [starting] = await left_behind(tmp_path, "--ready-when", str(switch), phase=Phase.STARTING)

    async with FakeAgent(tmp_path) as agent:
        [adopted] = agent.supervisor.shards()
        switch.touch()
        ready = await agent.phase(Phase.READY)

    assert (adopted.phase, adopted.pid) == (Phase.STARTING, starting.pid)
    assert ready.pid == starting.pid


async def test_no_restart_of_the_agent_moves_the_deadline_of_a_starting_engine(tmp_path: Path) -> None:
    [starting] = await left_behind(tmp_path, "--never-ready", phase=Phase.STARTING)
    path, record = record_of(tmp_path)
    path.write_bytes(msgspec.json.encode(record | {"since_now": record["since_now"] - 290.0}))

    async with FakeAgent(tmp_path) as agent:
        [adopted] = agent.supervisor.shards()
        [kept] = agent.home.records.read().records

    assert adopted.pid == starting.pid
    assert kept.since_now == pytest.approx(record["since_now"] - 290.0)


async def test_a_starting_engine_whose_deadline_went_by_meanwhile_is_failed(tmp_path: Path) -> None:
    [starting] = await left_behind(tmp_path, "--never-ready", phase=Phase.STARTING)
    path, record = record_of(tmp_path)
    path.write_bytes(msgspec.json.encode(record | {"since_now": record["since_now"] - 301.0}))

    async with FakeAgent(tmp_path) as agent:
        failed = await agent.phase(Phase.FAILED, within_s=10.0)

    assert "not ready within 5 min" in (failed.reason or "")
    assert not lives(starting.pid)


async def test_a_ready_engine_that_does_not_answer_at_once_stays_ready(tmp_path: Path) -> None:
    switch = tmp_path / "unhealthy"
    [ready] = await left_behind(tmp_path, "--unhealthy-when", str(switch))
    switch.touch()

    async with FakeAgent(tmp_path, timings=msgspec.structs.replace(QUICK, silent_after_s=0.2)) as agent:
        [adopted] = agent.supervisor.shards()
        noted = await until(lambda: next((s for s in agent.states() if s.reason), None))
        switch.unlink()
        again = await until(lambda: agent.states()[-1].reason is None and agent.states()[-1])

    assert adopted == ready
    assert (noted.phase, again.phase) == (Phase.READY, Phase.READY)


async def test_a_drain_goes_on_under_the_next_agent_and_ends_when_it_was_to(tmp_path: Path) -> None:
    agent = FakeAgent(tmp_path)
    await agent.__aenter__()
    agent.supervisor.start(agent.spec())
    ready = await agent.phase(Phase.READY)
    agent.supervisor.drain("m.0.0", FIRST, 1.5, "a node is emptied")
    await until(lambda: phases_on_disk(agent) == {Phase.DRAINING})
    await agent.leave()

    async with FakeAgent(tmp_path) as after:
        [adopted] = after.supervisor.shards()
        stopped = await after.phase(Phase.STOPPED)

    assert (adopted.phase, adopted.pid) == (Phase.DRAINING, ready.pid)
    assert adopted.reason == stopped.reason == "a node is emptied"


async def test_an_engine_that_ended_while_nobody_looked_is_reported_as_failed_with_its_last_words(
    tmp_path: Path,
) -> None:
    child_file, switch = tmp_path / "child", tmp_path / "die"
    [ready] = await left_behind(tmp_path, "--fork", str(child_file), "--die-when", str(switch))
    child = int(child_file.read_text())
    switch.touch()
    await until(lambda: not lives(ready.pid))
    lived = lives(child)

    async with FakeHub() as hub, FakeAgent(tmp_path, (hub.port,)):
        [register] = await hub.until(lambda: hub.of(Register))

    [failed] = register.said.shards
    assert lived
    assert not lives(child)
    assert failed.phase == Phase.FAILED
    assert f"pid {ready.pid}, ended while no agent was running" in (failed.reason or "")
    assert failed.tail[-1] == "cause: somebody asked for it"
    assert (tmp_path / "logs" / "m.0.0.crash.log").exists()
    assert list((tmp_path / "records").iterdir()) == []


async def test_after_a_restart_of_the_machine_its_engines_are_said_to_have_ended_with_it(
    tmp_path: Path,
) -> None:
    [ready] = await left_behind(tmp_path)
    os.kill(ready.pid or 0, signal.SIGKILL)
    path, record = record_of(tmp_path)
    path.write_bytes(msgspec.json.encode(record | {"process": record["process"] | {"boot_id": "before"}}))

    async with FakeAgent(tmp_path) as agent:
        [failed] = agent.supervisor.shards()

    assert failed.reason == "the machine was started again, and its engine ended with that"


async def test_a_process_that_got_the_pid_of_a_recorded_engine_is_not_touched(tmp_path: Path) -> None:
    stranger = await asyncio.create_subprocess_exec("sleep", "600", start_new_session=True)
    [ready] = await left_behind(tmp_path)
    stat = read_stat(stranger.pid)
    assert stat is not None
    path, record = record_of(tmp_path)
    process = record["process"] | {"pid": stat.pid, "start_ticks": stat.start_ticks - 1}
    path.write_bytes(msgspec.json.encode(record | {"process": process}))

    try:
        async with FakeAgent(tmp_path) as agent:
            [failed] = agent.supervisor.shards()
            lived = lives(stranger.pid)
    finally:
        stranger.kill()
        await stranger.wait()

    assert lived
    assert failed.phase == Phase.FAILED
    assert not lives(ready.pid)
    assert list((tmp_path / "records").iterdir()) == []


@pytest.mark.parametrize("record", [b'{"version": 1, "shard"', b"\xff\xfe", b"{}", b""])
async def test_an_engine_whose_record_cannot_be_read_is_killed_and_the_others_are_adopted(
    tmp_path: Path, record: bytes
) -> None:
    first, second = await left_behind(tmp_path, shards=2)
    record_of(tmp_path)[0].write_bytes(record)

    async with FakeAgent(tmp_path) as agent:
        adopted = agent.supervisor.shards()
        living = (lives(first.pid), lives(second.pid))

    assert adopted == (second,)
    assert living == (False, True)
    assert (tmp_path / "records" / "m.0.0.unreadable").exists()


async def test_a_second_record_of_one_process_is_set_aside_and_the_engine_stays_whose_it_is(
    tmp_path: Path,
) -> None:
    [ready] = await left_behind(tmp_path)
    path, record = record_of(tmp_path)
    other = {part: record[part] | {"shard": "x.0.0"} for part in ("spec", "state")} | {"shard": "x.0.0"}
    path.with_name("x.0.0.json").write_bytes(msgspec.json.encode(record | other))

    async with FakeAgent(tmp_path) as agent:
        adopted = agent.supervisor.shards()
        lived = lives(ready.pid)

    assert adopted == (ready,)
    assert lived
    assert (tmp_path / "records" / "x.0.0.unreadable").exists()


async def test_a_helper_with_a_session_of_its_own_is_not_taken_for_one_that_nobody_describes(
    tmp_path: Path,
) -> None:
    child_file = tmp_path / "child"
    await left_behind(tmp_path, "--fork-away", str(child_file))
    child = int(child_file.read_text())

    async with FakeAgent(tmp_path):
        lived = lives(child)

    assert lived
    assert not lives(child)


@pytest.mark.parametrize("known", [True, False])
async def test_an_engine_with_a_record_of_a_later_version_goes_on_and_its_shard_is_refused(
    tmp_path: Path, known: bool
) -> None:
    [ready] = await left_behind(tmp_path)
    path, record = record_of(tmp_path)
    later = record | {"version": VERSION + 1, "spec": None}
    path.write_bytes(msgspec.json.encode(later if known else later | {"process": "retyped"}))

    async with FakeAgent(tmp_path) as agent:
        shards = agent.supervisor.shards()
        refusal = agent.supervisor.start(agent.spec(counter=2))
        other = agent.supervisor.start(agent.spec(shard="m.1.0"))
        await agent.phase(Phase.READY, "m.1.0")
    lived = lives(ready.pid)
    await kill_undescribed(tmp_path)

    assert shards == ()
    assert f"the record {path} is of version {VERSION + 1}" in (refusal or "")
    assert known == (f"pid {ready.pid}" in (refusal or ""))
    assert other is None
    assert lived
    assert path.exists()


async def test_a_shard_of_a_later_version_can_be_started_once_its_engine_is_gone(tmp_path: Path) -> None:
    [ready] = await left_behind(tmp_path)
    path, record = record_of(tmp_path)
    path.write_bytes(msgspec.json.encode(record | {"version": VERSION + 1}))

    async with FakeAgent(tmp_path) as agent:
        os.kill(ready.pid or 0, signal.SIGKILL)
        await until(lambda: not lives(ready.pid))
        refusal = agent.supervisor.start(agent.spec(counter=2))
        again = await agent.phase(Phase.READY)

    assert refusal is None
    assert again.generation == SECOND


async def test_an_engine_of_a_kind_that_this_agent_does_not_know_goes_on_and_is_named(tmp_path: Path) -> None:
    [ready] = await left_behind(tmp_path)

    async with FakeAgent(tmp_path, engine="another") as agent:
        refusal = agent.supervisor.start(agent.spec(counter=2))
    lived = lives(ready.pid)
    async with FakeAgent(tmp_path) as after:
        adopted = after.supervisor.shards()

    assert "this agent knows no engine 'fake'" in (refusal or "")
    assert lived
    assert adopted == (ready,)


async def test_engines_of_another_state_folder_are_not_touched(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    async with FakeAgent(tmp_path / "a") as agent:
        agent.supervisor.start(agent.spec())
        ready = await agent.phase(Phase.READY)
        async with FakeAgent(tmp_path / "b"):
            lived = lives(ready.pid)

    assert lived


async def test_agents_that_come_and_go_many_times_leave_one_engine(tmp_path: Path) -> None:
    [ready] = await left_behind(tmp_path)

    for _ in range(5):
        agent = FakeAgent(tmp_path)
        await agent.__aenter__()
        [adopted] = agent.supervisor.shards()
        await agent.leave()
        assert adopted == ready
    async with FakeAgent(tmp_path) as last:
        last.supervisor.start(last.spec(counter=2))
        replaced = await last.phase(Phase.READY)

    assert replaced.pid != ready.pid
    assert not lives(ready.pid)


@contextlib.contextmanager
def no_more_files() -> Iterator[None]:
    """Let this process open no file beyond those it has, and a few."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = max(int(name) for name in os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 1, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


async def test_an_engine_of_which_the_kernel_does_not_tell_is_not_taken_for_dead(tmp_path: Path) -> None:
    [ready] = await left_behind(tmp_path)
    identity = FakeAgent(tmp_path).home.records.read().records[0].process
    mark = Mark(state_dir=str(tmp_path), launch="m.0.0@1.1")

    held: list[EngineProcess] = []
    with no_more_files(), pytest.raises(OSError, match="Too many open files"):
        held.extend(iter(lambda: EngineProcess.find(identity, mark), None))
    for process in held:
        process.release()
    lived = lives(ready.pid)
    async with FakeAgent(tmp_path) as agent:
        adopted = agent.supervisor.shards()

    assert lived
    assert adopted == (ready,)
