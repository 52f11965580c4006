"""Which logs are removed, and which stay."""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from llmgw.agent.logs.keeping import KEPT_S, MOST_KEPT, tidy
from llmgw.agent.state_dir import StateDir, file_name

AT = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture
def state_dir(tmp_path: Path) -> StateDir:
    made = StateDir(str(tmp_path))
    made.make()
    return made


def write(path: Path, age_s: float) -> None:
    path.write_text("words")
    os.utime(path, (AT.timestamp() - age_s,) * 2)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_all_logs_of_a_shard_that_ended_a_week_ago_go_and_those_of_a_present_one_stay(
    state_dir: StateDir,
) -> None:
    for shard in ("gone", "here"):
        for path in (state_dir.log_of(shard), state_dir.crash_of(shard)):
            write(path, KEPT_S + 60)
        write(state_dir.logs / f"{shard}.log.1", KEPT_S + 120)
    write(state_dir.jobs / "fetch%3Aold.log", KEPT_S + 60)

    tidy(state_dir, {file_name("here")}, AT)

    assert names(state_dir.logs) == {"here.log", "here.log.1", "here.crash.log"}
    assert names(state_dir.jobs) == set()


def test_a_shard_that_wrote_lately_keeps_all_of_its_logs(state_dir: StateDir) -> None:
    write(state_dir.log_of("a"), 60)
    write(state_dir.crash_of("a"), KEPT_S + 60)

    tidy(state_dir, (), AT)

    assert names(state_dir.logs) == {"a.log", "a.crash.log"}


def test_only_the_newest_logs_of_what_ended_stay(state_dir: StateDir) -> None:
    for number in range(MOST_KEPT + 3):
        write(state_dir.log_of(f"s{number:03d}"), number)

    tidy(state_dir, (), AT)

    assert names(state_dir.logs) == {f"s{number:03d}.log" for number in range(MOST_KEPT)}


def test_files_of_others_are_left_alone(state_dir: StateDir) -> None:
    write(state_dir.logs / "notes.txt", KEPT_S * 2)

    tidy(state_dir, (), AT)

    assert names(state_dir.logs) == {"notes.txt"}
