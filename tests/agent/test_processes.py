"""Telling processes apart and ending them."""

from pathlib import Path

import pytest

from llmgw.agent.processes import (
    EngineProcess,
    Identity,
    boot_id,
    kill_marked,
    parse_stat,
    read_stat,
    signal_name,
)

LINE = "77 (a) b (c)) S 1 77 76 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 123456 1000 2 3"


def test_a_name_with_blanks_and_brackets_does_not_shift_the_fields() -> None:
    stat = parse_stat(LINE)

    assert stat is not None
    assert (stat.pid, stat.state, stat.session, stat.start_ticks) == (77, "S", 76, 123456)


@pytest.mark.parametrize("text", ["", "77 (a", "77 (a) S 1", "x (a) " + "1 " * 30])
def test_what_is_no_stat_is_none(text: str) -> None:
    assert parse_stat(text) is None


def test_a_signal_is_named_if_it_has_a_name() -> None:
    assert (signal_name(9), signal_name(500)) == ("signal 9 (SIGKILL)", "signal 500")


@pytest.mark.parametrize("pid", [0, -1, 1, 2**31 - 1])
def test_a_pid_that_cannot_be_an_engine_is_never_found(pid: int) -> None:
    assert EngineProcess.find(Identity(pid=pid, start_ticks=0, boot_id=boot_id())) is None


@pytest.mark.slow
async def test_a_process_of_another_boot_is_never_found(tmp_path: Path) -> None:
    process = EngineProcess.spawn(("/bin/sleep", "60"), env={}, log=tmp_path / "log", folder=tmp_path)
    same = process.identity

    other_boot = EngineProcess.find(Identity(pid=same.pid, start_ticks=same.start_ticks, boot_id="other"))
    other_start = EngineProcess.find(
        Identity(pid=same.pid, start_ticks=same.start_ticks + 1, boot_id=same.boot_id)
    )
    found = EngineProcess.find(same)
    status = await process.stop(5.0)
    process.release()

    assert (other_boot, other_start) == (None, None)
    assert found is not None
    found.release()
    assert status == -15


@pytest.mark.slow
async def test_an_engine_leads_a_session_of_its_own_reads_nothing_and_writes_to_its_file(
    tmp_path: Path,
) -> None:
    process = EngineProcess.spawn(
        ("/bin/sh", "-c", "cat; echo out; echo err >&2; exec sleep 60"),
        env={},
        log=tmp_path / "log",
        folder=tmp_path,
    )
    stat = read_stat(process.identity.pid)

    await process.stop(0.5)
    process.release()

    assert stat is not None
    assert stat.session == stat.pid
    assert process.identity.start_ticks == stat.start_ticks


@pytest.mark.slow
async def test_a_program_that_is_not_there_cannot_be_spawned(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        EngineProcess.spawn(("/none/x",), env={}, log=tmp_path / "log", folder=tmp_path)


async def test_killing_what_carries_the_mark_of_nobody_kills_nobody(tmp_path: Path) -> None:
    assert await kill_marked(tmp_path) == 0
