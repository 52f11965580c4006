"""What jobs say stays, bounded, and stops no job."""

import asyncio
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
from fakes.clock import FakeClock

from llmgw.agent.logs.jobs import KEEP_BYTES, Jobs, Recorder
from llmgw.agent.output import tail
from llmgw.agent.state_dir import StateDir


@pytest.fixture
def state_dir(tmp_path: Path) -> StateDir:
    made = StateDir(str(tmp_path))
    made.make()
    return made


@pytest.fixture
def jobs(state_dir: StateDir) -> Jobs:
    return Jobs(state_dir, FakeClock())


def test_lines_are_written_with_their_time_and_without_credentials(jobs: Jobs, state_dir: StateDir) -> None:
    with jobs.open("fetch:0a1b") as log:
        log.line("GET https://me:hunter2@host/f")
        log.line("two\nlines\n")

    assert state_dir.job_log_of("fetch:0a1b").read_text().splitlines() == [
        "2030-01-01T00:00:00 GET https://me:[redacted]@host/f",
        "2030-01-01T00:00:00 two",
        "2030-01-01T00:00:00 lines",
    ]


def test_a_program_of_the_job_writes_to_the_same_file(jobs: Jobs, state_dir: StateDir) -> None:
    with jobs.open("install:vllm") as log:
        log.line("begin")
        with log.output() as descriptor:
            subprocess.run([sys.executable, "-c", "print('no such package')"], stdout=descriptor, check=True)
        log.line("failed")

    assert [line.split()[-1] for line in tail(state_dir.job_log_of("install:vllm"), 5)] == [
        "begin",
        "package",
        "failed",
    ]


def test_the_next_job_of_the_name_keeps_the_words_of_the_one_before(jobs: Jobs, state_dir: StateDir) -> None:
    for number in (1, 2):
        with jobs.open("fetch:a") as log:
            log.line(f"try {number}")

    path = state_dir.job_log_of("fetch:a")
    assert path.read_text().endswith("try 2\n")
    assert path.with_name(f"{path.name}.1").read_text().endswith("try 1\n")


def test_a_long_job_is_bounded_to_its_newest_words(jobs: Jobs, state_dir: StateDir) -> None:
    path = state_dir.job_log_of("fetch:a")
    with jobs.open("fetch:a") as log:
        for number in range(40_000):
            log.line(f"{number} {'x' * 60}")

    assert path.stat().st_blocks * 512 < 2 * KEEP_BYTES
    assert tail(path, 1)[0].split()[1] == "39999"


def test_a_job_whose_words_cannot_be_kept_goes_on(
    jobs: Jobs, state_dir: StateDir, caplog: pytest.LogCaptureFixture
) -> None:
    state_dir.jobs.rmdir()
    state_dir.jobs.write_text("in the way")

    with jobs.open("fetch:a") as log:
        log.line("nobody hears this")
        with log.output() as descriptor:
            os.write(descriptor, b"nor this")

    assert "cannot be kept: Not a directory" in caplog.text


def test_a_job_that_says_nothing_leaves_the_words_of_the_one_before_alone(
    jobs: Jobs, state_dir: StateDir
) -> None:
    with jobs.open("fetch:a") as log:
        log.line("it failed")
    with jobs.open("fetch:a"):
        pass

    assert [path.name for path in state_dir.jobs.iterdir()] == ["fetch%3Aa.log"]
    assert tail(state_dir.job_log_of("fetch:a"), 5)[0].endswith("it failed")


async def test_what_a_task_logs_while_it_works_for_a_job_is_the_jobs_words_and_no_other(
    jobs: Jobs, state_dir: StateDir
) -> None:
    recorder, logger = Recorder(), logging.getLogger("llmgw.agent.fetcher")
    begun = asyncio.Event()

    async def work(name: str) -> None:
        with jobs.recording(f"fetch:{name}"):
            logger.error("%s cannot be fetched: %s", name, "no such file")
            begun.set()
            await asyncio.sleep(0)
            logger.error("%s is over", name)

    logger.addHandler(recorder)
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(work("a"))
            await begun.wait()
            logger.error("of nobody's job")
            group.create_task(work("b"))
    finally:
        logger.removeHandler(recorder)

    for name in ("a", "b"):
        words = [line.partition(" ")[2] for line in tail(state_dir.job_log_of(f"fetch:{name}"), 9)]
        assert words == [f"ERROR {name} cannot be fetched: no such file", f"ERROR {name} is over"]


def test_a_name_is_never_a_path(jobs: Jobs, state_dir: StateDir) -> None:
    with jobs.open("fetch:../../x") as log:
        log.line("here")

    assert [path.parent for path in state_dir.path.rglob("*.log")] == [state_dir.jobs]
