"""Starting engine processes, finding them again and ending all of them."""

import asyncio
import os
import sys
from pathlib import Path

import pytest
from fakes.waiting import until

from llmgw.agent.engine_log import open_for_engine
from llmgw.agent.engine_process import EngineProcess, kill_undescribed
from llmgw.agent.processes import Identity, Mark, boot_id, read_stat

# A child that leaves the session of its engine, as a daemon does; its pid goes to a file.
RUNAWAY = "import os, sys, time; os.setsid(); open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(600)"


def lives(pid: int) -> bool:
    stat = read_stat(pid)
    return stat is not None and stat.is_alive


def mark_of(folder: Path, launch: str = "m.0.0@1.1") -> Mark:
    return Mark(state_dir=str(folder), launch=launch)


def spawn(folder: Path, *argv: str, mark: Mark | None = None) -> EngineProcess:
    output = open_for_engine(folder / "log")
    try:
        return EngineProcess.spawn(argv, env={}, mark=mark or mark_of(folder), output=output, folder=folder)
    finally:
        os.close(output)


@pytest.mark.parametrize("pid", [0, -1, 1, 2**31 - 1, 2**40])
def test_a_pid_that_cannot_be_an_engine_is_never_found(tmp_path: Path, pid: int) -> None:
    identity = Identity(pid=pid, start_ticks=0, boot_id=boot_id())

    assert EngineProcess.find(identity, mark_of(tmp_path)) is None


@pytest.mark.slow
async def test_a_process_is_found_by_pid_start_time_and_boot_together(tmp_path: Path) -> None:
    process = spawn(tmp_path, "/bin/sleep", "60")
    same, mark = process.identity, mark_of(tmp_path)

    other_boot = EngineProcess.find(
        Identity(pid=same.pid, start_ticks=same.start_ticks, boot_id="other"), mark
    )
    other_start = EngineProcess.find(
        Identity(pid=same.pid, start_ticks=same.start_ticks + 1, boot_id=same.boot_id), mark
    )
    found = EngineProcess.find(same, mark)
    status = await process.stop(5.0)
    process.release()

    assert (other_boot, other_start) == (None, None)
    assert found is not None
    assert (process.is_child, found.is_child) == (True, False)
    found.release()
    assert status == -15


@pytest.mark.slow
async def test_the_end_of_a_found_process_is_noticed_and_its_status_is_unknown(tmp_path: Path) -> None:
    process = spawn(tmp_path, "/bin/sleep", "60")
    found = EngineProcess.find(process.identity, mark_of(tmp_path))
    assert found is not None

    noticed = asyncio.create_task(found.wait())
    os.kill(process.identity.pid, 9)
    await asyncio.wait_for(noticed, 5.0)
    status = await found.stop(0.0)
    for one in (found, process):
        one.release()

    assert status is None


@pytest.mark.slow
async def test_an_engine_leads_a_session_of_its_own_reads_nothing_and_writes_to_its_file(
    tmp_path: Path,
) -> None:
    process = spawn(tmp_path, "/bin/sh", "-c", "cat; echo out; echo err >&2; exec sleep 60")
    stat = read_stat(process.identity.pid)

    await until(lambda: (tmp_path / "log").read_text() == "out\nerr\n")
    await process.stop(0.5)
    process.release()

    assert stat is not None
    assert stat.session == stat.pid
    assert process.identity.start_ticks == stat.start_ticks


@pytest.mark.slow
async def test_a_child_that_left_the_session_is_ended_by_the_mark_it_carries(tmp_path: Path) -> None:
    file = tmp_path / "runaway"
    process = spawn(
        tmp_path,
        sys.executable,
        "-Ic",
        f"import subprocess, sys\nsubprocess.run([sys.executable, '-Ic', {RUNAWAY!r}, {str(file)!r}])",
    )
    runaway = int(await until(lambda: file.exists() and file.read_text()))
    lived = lives(runaway)

    await process.stop(1.0)
    process.release()

    assert lived
    assert not lives(runaway)


@pytest.mark.slow
async def test_a_program_that_is_not_there_cannot_be_spawned(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        spawn(tmp_path, "/none/x")


@pytest.mark.slow
async def test_only_marked_processes_that_nothing_describes_are_killed(tmp_path: Path) -> None:
    named = {name: mark_of(tmp_path, name) for name in ("by-session", "by-launch", "by-nothing")}
    processes = {name: spawn(tmp_path, "/bin/sleep", "60", mark=mark) for name, mark in named.items()}
    elsewhere = spawn(tmp_path, "/bin/sleep", "60", mark=mark_of(tmp_path / "other", "by-nothing"))

    count = await kill_undescribed(tmp_path, {processes["by-session"].identity.pid}, {"by-launch"})
    living = {name for name, process in processes.items() if lives(process.identity.pid)}
    lived = lives(elsewhere.identity.pid)
    for process in (*processes.values(), elsewhere):
        await process.stop(1.0)
        process.release()

    assert count == 1
    assert living == {"by-session", "by-launch"}
    assert lived


async def test_killing_what_carries_the_mark_of_nobody_kills_nobody(tmp_path: Path) -> None:
    assert await kill_undescribed(tmp_path) == 0
