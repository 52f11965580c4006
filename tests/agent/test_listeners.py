"""Whose port it is: strangers that take it, or answer in an engine's place."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE

import pytest
from fakes.agent import FakeAgent

from llmgw.agent.listeners import is_strangers, listeners
from llmgw.agent.processes import Identity, Mark, boot_id, read_stat
from llmgw.core.fleet.shards import Phase


@pytest.fixture
def thieves(tmp_path: Path) -> Iterator[Path]:
    file = tmp_path / "thieves"
    yield file
    for pid in pids_in(file):
        os.kill(int(pid), signal.SIGKILL)


def pids_in(file: Path) -> list[str]:
    return file.read_text().split()


LISTEN = """
import socket, sys
with socket.create_server(("127.0.0.1", 0)) as server:
    print(server.getsockname()[1], flush=True)
    sys.stdin.read()
"""


@contextmanager
def listener() -> Iterator[tuple[int, int]]:
    """Run a process that leads a session of its own and listens: its pid and its port."""
    argv = [sys.executable, "-S", "-c", LISTEN]
    with subprocess.Popen(argv, stdin=PIPE, stdout=PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        yield process.pid, int(process.stdout.readline())


def test_a_listener_is_found_and_is_its_own_engine_s() -> None:
    mark = Mark(state_dir="/none", launch="none")
    other = Identity(pid=2**22 - 1, start_ticks=0, boot_id=boot_id())

    with listener() as (pid, port):
        stat = read_stat(pid)
        assert stat is not None
        own = Identity(pid=pid, start_ticks=stat.start_ticks, boot_id=boot_id())
        found = listeners(port)
        answers = (is_strangers(port, own, mark), is_strangers(port, other, mark))

    assert found == {pid}
    assert answers == (False, True)
    assert listeners(port) == frozenset()
    assert not is_strangers(port, other, mark)


@pytest.mark.slow
async def test_a_port_that_was_taken_between_choice_and_use_is_exchanged_for_another(
    tmp_path: Path, thieves: Path
) -> None:
    async with FakeAgent(tmp_path) as agent:
        agent.supervisor.start(agent.spec("--steal", str(thieves)))
        ready = await agent.phase(Phase.READY)

    first, second = [state for state in agent.states() if state.phase == Phase.STARTING]
    assert agent.phases() == [
        Phase.PENDING,
        Phase.STARTING,
        Phase.STARTING,
        Phase.READY,
        Phase.STOPPED,
    ]
    assert first.port != second.port == ready.port
    assert first.pid != second.pid == ready.pid
    assert first.since_s == second.since_s
    assert not (tmp_path / "logs" / "m.0.0.log.1").exists()


@pytest.mark.slow
async def test_an_answer_that_a_stranger_gives_on_the_port_makes_no_engine_ready(
    tmp_path: Path, thieves: Path
) -> None:
    async with FakeAgent(tmp_path, stop_grace_s=1.0) as agent:
        agent.supervisor.start(agent.spec("--steal", str(thieves), "--bind-after", "1"))
        ready = await agent.phase(Phase.READY)

    taken = next(state.port for state in agent.states() if state.phase == Phase.STARTING)
    assert ready.port != taken
    assert agent.phases().count(Phase.READY) == 1


@pytest.mark.slow
async def test_ports_that_are_taken_again_and_again_are_a_failure_that_says_so(
    tmp_path: Path, thieves: Path
) -> None:
    async with FakeAgent(tmp_path) as agent:
        agent.supervisor.start(agent.spec("--steal", str(thieves), "--steals", "9"))
        failed = await agent.phase(Phase.FAILED)

    pids = pids_in(thieves)
    assert len(pids) == 3
    assert f"port {failed.port} on 127.0.0.1 is taken by another process (pid {pids[-1]})" in (
        failed.reason or ""
    )
    assert "as was each of 3 ports in turn" in (failed.reason or "")
    assert agent.home.ports == set()
    assert list((tmp_path / "records").iterdir()) == []
