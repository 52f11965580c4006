"""The files that engines write to: bounded from outside, offsets stable, evidence kept."""

import os
from pathlib import Path

import pytest
from fakes.agent import QUICK, FakeAgent
from fakes.waiting import until
from msgspec.structs import replace

from llmgw.agent.engine_log import (
    KEEP_BYTES,
    begin,
    forget_crash,
    keep_crash,
    open_for_engine,
    trim,
    trim_all,
)
from llmgw.agent.output import tail
from llmgw.core.fleet.shards import Phase
from llmgw.core.units import MIB

SLACK = MIB // 2


def held_bytes(path: Path) -> int:
    return path.stat().st_blocks * 512


def no_holes(descriptor: int, until: int) -> bool:
    return False


def test_a_new_run_begins_an_empty_file_and_keeps_the_one_before(tmp_path: Path) -> None:
    log = tmp_path / "m.log"
    log.write_text("first")

    begin(log)
    os.close(open_for_engine(log))

    assert log.read_text() == ""
    assert (tmp_path / "m.log.1").read_text() == "first"


def test_a_trimmed_file_keeps_its_newest_bytes_at_their_offsets(tmp_path: Path) -> None:
    log = tmp_path / "m.log"
    log.write_bytes(b"".join(b"line %07d\n" % number for number in range(400_000)))
    size = log.stat().st_size

    trim(log, MIB)

    assert log.stat().st_size == size
    assert held_bytes(log) <= MIB + SLACK
    assert log.read_bytes()[-13 * 50_000 :].startswith(b"line 0350000\n")
    assert tail(log, 2) == ("line 0399998", "line 0399999")


def test_what_is_written_after_a_trim_follows_on(tmp_path: Path) -> None:
    log = tmp_path / "m.log"
    engine = open_for_engine(log)
    try:
        os.write(engine, b"x\n" * MIB)
        trim(log, MIB)
        os.write(engine, b"after\n")
    finally:
        os.close(engine)

    assert log.stat().st_size == 2 * MIB + 6
    assert tail(log, 2) == ("x", "after")


def test_a_small_file_is_left_alone(tmp_path: Path) -> None:
    log = tmp_path / "m.log"
    log.write_text("a\nb\n")

    trim(log, MIB)

    assert log.read_text() == "a\nb\n"


def test_without_holes_the_newest_part_moves_to_the_front_and_the_engine_writes_on_behind_it(
    tmp_path: Path,
) -> None:
    log = tmp_path / "m.log"
    engine = open_for_engine(log)
    try:
        os.write(engine, b"old\n" * (MIB // 2) + b"new\n")
        trim(log, MIB // 2, punch=no_holes)
        os.write(engine, b"after\n")
    finally:
        os.close(engine)

    assert log.stat().st_size == MIB // 2 + 6
    assert tail(log, 2) == ("new", "after")


def test_without_holes_a_file_may_grow_to_twice_its_bound(tmp_path: Path) -> None:
    log = tmp_path / "m.log"
    log.write_bytes(b"x" * (MIB + MIB // 2))

    trim(log, MIB, punch=no_holes)

    assert log.stat().st_size == MIB + MIB // 2


def test_one_file_that_cannot_be_bounded_does_not_keep_the_others_from_it(tmp_path: Path) -> None:
    (tmp_path / "a.log").symlink_to("/dev/full")
    (tmp_path / "b.log").write_bytes(b"x" * 2 * KEEP_BYTES)

    problems = trim_all(tmp_path)

    assert len(problems) == 1
    assert "a.log cannot be bounded" in problems[0]
    assert held_bytes(tmp_path / "b.log") <= KEEP_BYTES + SLACK


def test_a_folder_that_is_not_there_has_nothing_to_bound(tmp_path: Path) -> None:
    assert trim_all(tmp_path / "none") == ()


def test_the_first_crash_is_kept_until_it_is_forgotten(tmp_path: Path) -> None:
    log, crash = tmp_path / "m.log", tmp_path / "m.crash.log"
    for words in ("first", "second"):
        begin(log)
        log.write_text(words)
        keep_crash(log, crash)
    kept = crash.read_text()

    forget_crash(crash)
    forget_crash(crash)
    keep_crash(log, crash)

    assert kept == "first"
    assert crash.read_text() == "second"


def test_a_crash_without_output_keeps_nothing(tmp_path: Path) -> None:
    keep_crash(tmp_path / "none.log", tmp_path / "m.crash.log")

    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
async def test_an_engine_that_writes_50_mib_is_bounded_while_it_runs_and_under_the_next_agent(
    tmp_path: Path,
) -> None:
    timings = replace(QUICK, trim_s=0.1)
    agent = FakeAgent(tmp_path, timings=timings)
    log = tmp_path / "logs" / "m.0.0.log"
    await agent.__aenter__()
    agent.supervisor.start(agent.spec("--flood", "50"))
    ready = await agent.phase(Phase.READY)
    await until(lambda: held_bytes(log) <= KEEP_BYTES + SLACK)
    size = log.stat().st_size
    await agent.leave()

    async with FakeAgent(tmp_path, timings=timings) as after:
        [adopted] = after.supervisor.shards()
        last = tail(log, 1)[0]

    assert size > 50 * MIB - MIB
    assert adopted.pid == ready.pid
    assert last.startswith("flood 49 x")


@pytest.mark.slow
async def test_of_a_crash_loop_the_first_the_last_and_the_one_before_are_kept(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    async with FakeAgent(tmp_path) as agent:
        for counter in (1, 2, 3):
            agent.supervisor.start(agent.spec("--die", "1", "--say", f"run {counter}", counter=counter))
            await agent.phase(Phase.FAILED)
        found = {path.name: path.read_text() for path in logs.iterdir()}

    assert {name: text.split("\n")[1] for name, text in found.items()} == {
        "m.0.0.crash.log": "run 1",
        "m.0.0.log": "run 3",
        "m.0.0.log.1": "run 2",
    }


@pytest.mark.slow
async def test_the_first_crash_is_forgotten_after_long_health(tmp_path: Path) -> None:
    crash = tmp_path / "logs" / "m.0.0.crash.log"
    async with FakeAgent(tmp_path, timings=replace(QUICK, healthy_s=0.3)) as agent:
        agent.supervisor.start(agent.spec("--die", "1"))
        await agent.phase(Phase.FAILED)
        kept = crash.exists()
        agent.supervisor.start(agent.spec(counter=2))
        await agent.phase(Phase.READY)
        kept_at_first = crash.exists()
        await until(lambda: not crash.exists())

    assert (kept, kept_at_first) == (True, True)


@pytest.mark.slow
async def test_a_short_health_leaves_the_first_crash(tmp_path: Path) -> None:
    switch = tmp_path / "die"
    async with FakeAgent(tmp_path) as agent:
        agent.supervisor.start(agent.spec("--die", "1", "--say", "run 1"))
        await agent.phase(Phase.FAILED)
        agent.supervisor.start(agent.spec("--die-when", str(switch), counter=2))
        await agent.phase(Phase.READY)
        switch.touch()
        await agent.phase(Phase.FAILED)

    assert "run 1" in (tmp_path / "logs" / "m.0.0.crash.log").read_text()
