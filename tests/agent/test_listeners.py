"""Whose port it is: strangers that take it, or answer in an engine's place."""

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

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


def test_a_listener_is_found_and_is_its_own_engine_s() -> None:
    stat = read_stat(os.getpid())
    assert stat is not None
    session = read_stat(stat.session)
    mark = Mark(state_dir="/none", launch="none")
    own = Identity(pid=stat.session, start_ticks=session.start_ticks if session else 0, boot_id=boot_id())
    other = Identity(pid=2**22 - 1, start_ticks=0, boot_id=boot_id())

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        found = listeners(port)
        answers = (is_strangers(port, own, mark), is_strangers(port, other, mark))

    assert found == {os.getpid()}
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
