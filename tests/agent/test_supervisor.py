"""The owner of the shards, with real processes of a scripted engine."""

import os
import signal
from pathlib import Path

import msgspec
import pytest
from fakes.agent import QUICK, FakeAgent
from fakes.hub import FakeHub

from llmgw.agent.processes import read_stat
from llmgw.core.fleet.hardware import EngineInstall
from llmgw.core.fleet.shards import Phase
from llmgw.core.ids import Generation
from llmgw.wire.frames import Register, StartShard, StopShard

FIRST, SECOND = Generation(1, 1), Generation(1, 2)


def variables_of(pid: int | None) -> list[bytes]:
    return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")


def lives(pid: int | None) -> bool:
    stat = read_stat(pid or 0)
    return stat is not None and stat.is_alive


@pytest.mark.slow
async def test_a_shard_goes_from_pending_over_starting_to_ready_and_is_stopped(tmp_path: Path) -> None:
    async with FakeHub() as hub, FakeAgent(tmp_path, (hub.port,)) as agent:
        await hub.until(lambda: hub.of(Register))
        await hub.send(StartShard(seq=1, spec=agent.spec("--load", "0.3")))
        ready = await hub.phase(Phase.READY)
        await hub.send(StopShard(seq=2, shard="m.0.0", generation=FIRST, because="enough"))
        stopped = await hub.phase(Phase.STOPPED)
        ack = await hub.acked(2)

    assert hub.phases() == [Phase.PENDING, Phase.STARTING, Phase.READY, Phase.STOPPED]
    assert (ready.host, ready.port and ready.port > 0) == ("127.0.0.1", True)
    assert stopped.reason == "enough"
    assert ack.error is None
    assert not lives(ready.pid)
    assert agent.supervisor.shards() == ()
    assert list((tmp_path / "records").iterdir()) == []


@pytest.mark.slow
async def test_an_engine_that_ends_at_once_is_a_failure_with_status_cause_and_tail(tmp_path: Path) -> None:
    async with FakeAgent(tmp_path) as agent:
        agent.supervisor.start(agent.spec("--die", "4"))
        failed = await agent.phase(Phase.FAILED)
        kept = agent.supervisor.shards()

    assert failed.exit_status == 4
    assert failed.reason == "fake ended with status 4 while starting: cause: the weights are broken"
    assert failed.tail[-1] == "cause: the weights are broken"
    assert [shard.phase for shard in kept] == [Phase.FAILED]
    assert list((tmp_path / "records").iterdir()) == []


@pytest.mark.slow
async def test_the_end_of_a_ready_engine_is_noticed_at_once(tmp_path: Path) -> None:
    slow_polls = msgspec.structs.replace(QUICK, poll_ready_s=60.0)
    async with FakeAgent(tmp_path, timings=slow_polls) as agent:
        agent.supervisor.start(agent.spec())
        ready = await agent.phase(Phase.READY)
        os.kill(ready.pid or 0, signal.SIGKILL)
        failed = await agent.phase(Phase.FAILED, within_s=5.0)

    assert failed.exit_status == -9
    assert "fake was ended by signal 9 (SIGKILL) while ready" in (failed.reason or "")


@pytest.mark.slow
async def test_an_engine_that_never_gets_ready_is_failed_at_the_deadline_and_is_gone(tmp_path: Path) -> None:
    timings = msgspec.structs.replace(QUICK, start_s=0.5)
    async with FakeAgent(tmp_path, timings=timings) as agent:
        agent.supervisor.start(agent.spec("--never-ready"))
        starting = await agent.phase(Phase.STARTING)
        failed = await agent.phase(Phase.FAILED)

    assert "not ready within 0 s" in (failed.reason or "")
    assert not lives(starting.pid)


@pytest.mark.slow
async def test_an_engine_that_ignores_sigterm_is_killed_after_the_grace_with_its_children(
    tmp_path: Path,
) -> None:
    child_file = tmp_path / "child"
    async with FakeAgent(tmp_path, stop_grace_s=0.3) as agent:
        agent.supervisor.start(agent.spec("--ignore-term", "--fork", str(child_file)))
        ready = await agent.phase(Phase.READY)
        child = int(child_file.read_text())
        child_lived = lives(child)
        agent.supervisor.stop("m.0.0", FIRST, "enough")
        stopped = await agent.phase(Phase.STOPPED)

    assert child_lived
    assert stopped.exit_status == -9
    assert not lives(ready.pid)
    assert not lives(child)


@pytest.mark.slow
async def test_a_child_that_outlives_a_crashed_engine_is_ended_with_it(tmp_path: Path) -> None:
    child_file = tmp_path / "child"
    async with FakeAgent(tmp_path) as agent:
        agent.supervisor.start(agent.spec("--fork", str(child_file), "--die", "1"))
        await agent.phase(Phase.FAILED)

    assert not lives(int(child_file.read_text()))


@pytest.mark.slow
async def test_a_later_generation_takes_over_when_the_earlier_has_ended(tmp_path: Path) -> None:
    async with FakeAgent(tmp_path) as agent:
        agent.supervisor.start(agent.spec())
        first = await agent.phase(Phase.READY)
        agent.supervisor.start(agent.spec(counter=2))
        second = await agent.phase(Phase.READY)
        shards = agent.supervisor.shards()
        first_lived = lives(first.pid)
        records = list((tmp_path / "records").glob("*.json"))

    order = [(state.generation.counter, state.phase) for state in agent.states()]
    assert order.index((1, Phase.STOPPED)) < order.index((2, Phase.STARTING))
    assert (first.generation, second.generation) == (FIRST, SECOND)
    assert first.pid != second.pid
    assert not first_lived
    assert len(records) == len(shards) == 1


@pytest.mark.slow
async def test_the_same_start_again_only_says_where_the_shard_is(tmp_path: Path) -> None:
    async with FakeAgent(tmp_path) as agent:
        spec = agent.spec()
        agent.supervisor.start(spec)
        ready = await agent.phase(Phase.READY)
        refusal = agent.supervisor.start(spec)
        again = agent.reported[-1]

    assert refusal is None
    assert again == ready


@pytest.mark.slow
async def test_an_earlier_generation_is_refused_and_its_stop_harms_nobody(tmp_path: Path) -> None:
    async with FakeAgent(tmp_path) as agent:
        agent.supervisor.start(agent.spec(counter=2))
        ready = await agent.phase(Phase.READY)
        refusal = agent.supervisor.start(agent.spec(counter=1))
        agent.supervisor.stop("m.0.0", FIRST, "an old order")
        after = agent.supervisor.shards()

    assert refusal == "m.0.0 runs in generation 1.2, later than 1.1"
    assert after == (ready,)


@pytest.mark.slow
async def test_a_stop_while_starting_is_a_stop_and_no_failure(tmp_path: Path) -> None:
    async with FakeAgent(tmp_path) as agent:
        agent.supervisor.start(agent.spec("--never-ready"))
        starting = await agent.phase(Phase.STARTING)
        agent.supervisor.stop("m.0.0", FIRST, "enough")
        await agent.phase(Phase.STOPPED)

    assert Phase.FAILED not in agent.phases()
    assert not lives(starting.pid)


@pytest.mark.slow
async def test_a_drained_shard_serves_until_its_deadline(tmp_path: Path) -> None:
    async with FakeAgent(tmp_path) as agent:
        agent.supervisor.start(agent.spec())
        ready = await agent.phase(Phase.READY)
        agent.supervisor.drain("m.0.0", FIRST, 0.5, "a node is emptied")
        draining = await agent.phase(Phase.DRAINING)
        lived = lives(ready.pid)
        stopped = await agent.phase(Phase.STOPPED)

    assert lived
    assert draining.reason == stopped.reason == "a node is emptied"
    assert agent.supervisor.shards() == ()


@pytest.mark.slow
async def test_a_stop_ends_a_drain_early(tmp_path: Path) -> None:
    async with FakeAgent(tmp_path) as agent:
        agent.supervisor.start(agent.spec())
        await agent.phase(Phase.READY)
        agent.supervisor.drain("m.0.0", FIRST, 600.0, "a node is emptied")
        agent.supervisor.stop("m.0.0", FIRST, "nothing is in flight")
        await agent.phase(Phase.STOPPED)

    assert agent.phases()[-2:] == [Phase.DRAINING, Phase.STOPPED]


@pytest.mark.slow
async def test_a_ready_engine_that_turns_unhealthy_says_so_and_is_failed_in_the_end(tmp_path: Path) -> None:
    switch = tmp_path / "unhealthy"
    timings = msgspec.structs.replace(QUICK, silent_after_s=0.2, hung_after_s=1.5)
    async with FakeAgent(tmp_path, timings=timings) as agent:
        agent.supervisor.start(agent.spec("--unhealthy-when", str(switch)))
        await agent.phase(Phase.READY)
        switch.touch()
        failed = await agent.phase(Phase.FAILED)

    noted = next(state for state in agent.states() if state.reason)
    assert (noted.phase, noted.reason) == (
        Phase.READY,
        "no healthy answer for 0 s (it answers that something is broken)",
    )
    assert "unhealthy for" in (failed.reason or "")


@pytest.mark.slow
async def test_output_of_the_run_before_is_kept_beside_the_current(tmp_path: Path) -> None:
    async with FakeAgent(tmp_path) as agent:
        for counter in (1, 2):
            agent.supervisor.start(agent.spec("--die", str(counter), counter=counter))
            await agent.phase(Phase.FAILED)

    assert sorted(path.name for path in (tmp_path / "logs").iterdir()) == [
        "m.0.0.crash.log",
        "m.0.0.log",
        "m.0.0.log.1",
    ]


@pytest.mark.slow
async def test_variables_that_the_adapter_scrubs_do_not_reach_the_engine(tmp_path: Path) -> None:
    async with FakeAgent(tmp_path) as agent:
        agent.supervisor.start(agent.spec(env={"ASKED": "yes"}))
        ready = await agent.phase(Phase.READY)
        environment = variables_of(ready.pid)

    assert b"ASKED=yes" in environment
    assert f"LLMGW_ENGINE_OF={tmp_path}".encode() in environment


# What is refused before anything is launched.


async def refused(agent: FakeAgent, *args: str, **profile: object) -> str:
    """Start a shard that must fail without a process, and return its reason."""
    async with agent:
        agent.supervisor.start(agent.spec(*args, **profile))
        failed = await agent.phase(Phase.FAILED)
    assert Phase.STARTING not in agent.phases()
    assert failed.pid is None
    return failed.reason or ""


async def test_weights_that_are_not_there_name_the_file_and_the_node(tmp_path: Path) -> None:
    reason = await refused(FakeAgent(tmp_path), weights="file:///srv/none/absent.gguf")

    assert reason == "weights file /srv/none/absent.gguf is not on node n1"


async def test_weights_that_are_a_folder_are_refused(tmp_path: Path) -> None:
    reason = await refused(FakeAgent(tmp_path), weights=f"file://{tmp_path}")

    assert reason == f"weights {tmp_path} on node n1 are a folder, and fake loads a file; name the file in it"


async def test_weights_with_a_nul_in_their_name_are_refused(tmp_path: Path) -> None:
    reason = await refused(FakeAgent(tmp_path), weights="file:///srv/a\0b")

    assert "NUL" in reason


async def test_an_engine_that_is_not_there_is_named_with_the_remedy(tmp_path: Path) -> None:
    reason = await refused(FakeAgent(tmp_path, installs=()))

    assert reason == "engine 'fake' is not on node n1; name it under `engines` in its agent.yaml"


async def test_an_engine_that_does_not_run_is_refused_in_the_words_of_its_probe(tmp_path: Path) -> None:
    broken = EngineInstall(engine="fake", form="program", path="/x", problem="it cannot be started")

    reason = await refused(FakeAgent(tmp_path, installs=(broken,)))

    assert reason == "engine 'fake' does not run on node n1: it cannot be started"


async def test_a_profile_that_the_engine_refuses_is_not_launched(tmp_path: Path) -> None:
    reason = await refused(FakeAgent(tmp_path), "--forbidden")

    assert reason == "argument '--forbidden' is refused"


async def test_a_program_that_cannot_be_started_is_a_failure_that_names_it(tmp_path: Path) -> None:
    absent = EngineInstall(engine="fake", form="program", path="/srv/none/engine")

    reason = await refused(FakeAgent(tmp_path, installs=(absent,)))

    assert reason == "/srv/none/engine cannot be started on node n1: No such file or directory"


async def test_an_address_of_another_machine_is_refused_with_the_key_to_correct(tmp_path: Path) -> None:
    agent = FakeAgent(tmp_path, address="192.0.2.7")

    reason = await refused(agent)

    assert "no engine can listen on 192.0.2.7, the address of node n1" in reason
    assert "correct `address` in its agent.yaml" in reason


async def test_a_variable_that_no_program_can_be_given_is_a_failure(tmp_path: Path) -> None:
    reason = await refused(FakeAgent(tmp_path), env={"A=B": "x"})

    assert "cannot be started on node n1" in reason


@pytest.mark.parametrize("shard", ["", "a\nb", "x" * 500])
async def test_a_shard_id_that_is_none_is_refused(tmp_path: Path, shard: str) -> None:
    async with FakeAgent(tmp_path) as agent:
        refusal = agent.supervisor.start(agent.spec(shard=shard))

    assert "a shard id has 1 to 256 printable characters" in (refusal or "")
    assert agent.reported == []


async def test_a_failed_shard_that_is_stopped_is_reported_and_forgotten(tmp_path: Path) -> None:
    async with FakeAgent(tmp_path) as agent:
        agent.supervisor.start(agent.spec("--forbidden"))
        await agent.phase(Phase.FAILED)
        agent.supervisor.stop("m.0.0", FIRST, "enough")
        shards = agent.supervisor.shards()

    assert agent.phases() == [Phase.PENDING, Phase.FAILED, Phase.STOPPED]
    assert shards == ()


async def test_nothing_is_started_any_more_once_the_agent_ends(tmp_path: Path) -> None:
    async with FakeAgent(tmp_path) as agent:
        await agent.supervisor.stop_all("enough")
        refusal = agent.supervisor.start(agent.spec())

    assert refusal == "the agent on node n1 is ending"


@pytest.mark.slow
async def test_no_two_shards_get_one_port_and_ports_are_given_back(tmp_path: Path) -> None:
    async with FakeAgent(tmp_path) as agent:
        for shard in ("m.0.0", "m.1.0", "m.2.0"):
            agent.supervisor.start(agent.spec(shard=shard))
        ready = [await agent.phase(Phase.READY, shard) for shard in ("m.0.0", "m.1.0", "m.2.0")]
        ports = {state.port for state in ready}
        given = set(agent.home.ports)

    assert len(ports) == 3
    assert given == ports
    assert agent.home.ports == set()


async def test_a_stop_that_comes_before_the_launch_starts_no_process_and_keeps_no_port(
    tmp_path: Path,
) -> None:
    async with FakeAgent(tmp_path) as agent:
        agent.supervisor.start(agent.spec())
        agent.supervisor.stop("m.0.0", FIRST, "enough")
        await agent.phase(Phase.STOPPED)
        ports = set(agent.home.ports)

    assert agent.phases() == [Phase.PENDING, Phase.STOPPED]
    assert ports == set()
