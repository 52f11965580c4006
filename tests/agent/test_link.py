"""The agent's end of the link against a hub."""

import random
from pathlib import Path

import msgspec
import pytest
from fakes.agent import FakeAgent
from fakes.clock import FakeClock
from fakes.hub import FakeHub

from llmgw.core.fleet.shards import Phase
from llmgw.core.ids import Generation
from llmgw.wire.codec import encode
from llmgw.wire.frames import (
    PROTOCOL,
    Ack,
    AskRegister,
    Heartbeat,
    LogsReply,
    LogsRequest,
    Provision,
    Register,
    RemoveWeights,
    StartShard,
    StopShard,
    Welcome,
)


async def test_an_agent_registers_first_and_then_sends_heartbeats(tmp_path: Path) -> None:
    async with FakeHub() as hub, FakeAgent(tmp_path, (hub.port,)):
        await hub.until(lambda: len(hub.of(Heartbeat)) >= 3)

    assert isinstance(hub.frames[0], Register)
    assert hub.frames[0].said.node == "n1"


async def test_a_register_says_which_protocol_and_which_agent_it_is(tmp_path: Path) -> None:
    async with FakeHub() as hub, FakeAgent(tmp_path, (hub.port,)):
        await hub.until(lambda: hub.of(Register))
        [said] = hub.of(Register)[:1]

    assert said.protocol == PROTOCOL
    assert said.instance


async def test_nothing_but_register_is_said_before_the_welcome(tmp_path: Path) -> None:
    async with FakeHub(welcomes=False) as hub, FakeAgent(tmp_path, (hub.port,)) as agent:
        await hub.until(lambda: hub.of(Register))
        agent.supervisor.start(agent.spec("--forbidden"))
        before = list(hub.frames)
        await hub.send(Welcome(epoch=1))
        await hub.phase(Phase.FAILED)

    assert [type(frame) for frame in before] == [Register]


async def test_an_agent_that_is_asked_registers_again_on_the_same_connection(tmp_path: Path) -> None:
    async with FakeHub() as hub, FakeAgent(tmp_path, (hub.port,)):
        await hub.until(lambda: hub.of(Register))
        await hub.send(AskRegister(reason="who are you"))
        await hub.until(lambda: len(hub.of(Register)) == 2)

    assert len(hub.connections) == 1


async def test_an_agent_whose_hardware_changed_registers_again_on_the_same_connection(tmp_path: Path) -> None:
    async with FakeHub() as hub, FakeAgent(tmp_path, (hub.port,)) as agent:
        await hub.until(lambda: hub.of(Heartbeat))
        agent.link.introduce_again()
        await hub.until(lambda: len(hub.of(Register)) == 2)

    assert len(hub.connections) == 1


async def test_an_agent_dials_again_after_the_hub_was_away(tmp_path: Path) -> None:
    async with FakeHub() as hub, FakeAgent(tmp_path, (hub.port,)):
        await hub.until(lambda: hub.of(Heartbeat))
        await hub.close()
        await hub.open()
        await hub.until(lambda: len(hub.of(Register)) == 2)

    assert len(hub.connections) == 2


@pytest.mark.parametrize(("lasted_s", "forgotten"), [(0.0, False), (3.0, True)])
async def test_a_connection_that_worked_for_seconds_makes_the_waits_short_again_and_one_that_broke_at_once_does_not(
    tmp_path: Path, lasted_s: float, forgotten: bool
) -> None:
    clock = FakeClock()
    async with FakeHub() as hub, FakeAgent(tmp_path, (hub.port,), link_clock=clock) as agent:
        agent.link._failed = 5
        await hub.until(lambda: hub.of(Heartbeat))
        clock.advance(lasted_s)
        await hub.close()
        await hub.open()
        await hub.until(lambda: len(hub.of(Register)) == 2)

    assert (agent.link._failed < 5) == forgotten


async def test_the_next_address_is_tried_when_one_does_not_answer(tmp_path: Path) -> None:
    async with FakeHub() as gone:
        port = gone.port

    async with FakeHub() as hub, FakeAgent(tmp_path, (port, hub.port)):
        await hub.until(lambda: hub.of(Register))

    assert not gone.frames


async def test_what_happened_while_the_hub_was_away_is_in_the_next_register(tmp_path: Path) -> None:
    async with FakeHub() as hub, FakeAgent(tmp_path, (hub.port,)) as agent:
        await hub.until(lambda: hub.of(Heartbeat))
        await hub.close()
        agent.supervisor.start(agent.spec("--forbidden"))
        await agent.phase(Phase.FAILED)
        await hub.open()
        await hub.until(lambda: len(hub.of(Register)) == 2)
        await hub.until(lambda: isinstance(hub.frames[-1], Heartbeat))
        states = hub.states()

    [shard] = hub.of(Register)[1].said.shards
    assert shard.phase == Phase.FAILED
    assert states == []


async def test_a_command_this_agent_cannot_carry_out_is_acknowledged_with_the_reason(tmp_path: Path) -> None:
    async with FakeHub() as hub, FakeAgent(tmp_path, (hub.port,)):
        await hub.until(lambda: hub.of(Register))
        await hub.send(Provision(seq=8, engine="vllm", version="1"))
        provisioned = await hub.acked(8)

    assert "cannot install 'vllm'" in (provisioned.error or "")


async def test_a_request_for_a_log_that_is_not_there_is_answered_with_an_error_and_the_sources(
    tmp_path: Path,
) -> None:
    async with FakeHub() as hub, FakeAgent(tmp_path, (hub.port,)):
        await hub.until(lambda: hub.of(Register))
        await hub.send(LogsRequest(request_id=3, source="m.0.0"))
        [reply] = await hub.until(lambda: hub.of(LogsReply))

    assert reply.request_id == 3
    assert reply.sources == ("agent",)
    assert reply.error == "no log source 'm.0.0' on node n1; it has: agent"


async def test_a_command_that_comes_twice_is_taken_once_and_acknowledged_twice(tmp_path: Path) -> None:
    async with FakeHub() as hub, FakeAgent(tmp_path, (hub.port,)) as agent:
        await hub.until(lambda: hub.of(Register))
        start = StartShard(seq=5, spec=agent.spec("--forbidden"))
        await hub.send(start)
        await hub.send(start)
        await hub.until(lambda: [ack.seq for ack in hub.of(Ack)] == [5, 5])
        await hub.phase(Phase.FAILED)
        phases = hub.phases()

    assert phases == [Phase.PENDING, Phase.FAILED]


async def test_an_unknown_frame_is_logged_once_and_a_bad_one_once_a_minute(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with FakeHub() as hub, FakeAgent(tmp_path, (hub.port,)):
        await hub.until(lambda: hub.of(Register))
        for _ in range(5):
            await hub.send_bytes(b"\0" + msgspec.msgpack.encode({"type": "from-the-future"}))
            await hub.send_bytes(b"\7")
        await hub.send(RemoveWeights(seq=1))
        await hub.acked(1)

    words = [message for message in caplog.messages if "sent" in message]
    assert len(words) == 2
    assert "'from-the-future' that this version does not know; ignored" in words[0]
    assert "begins with 7" in words[1]


def hostile_frames(count: int) -> list[bytes | str]:
    """Random bytes, frames cut short or with bytes changed, right frames with wrong values, and texts."""
    chance = random.Random(20)
    profile = {"name": "p", "engine": "x", "weights": "file:///\0"}
    shard = {"shard": "\0" * 9, "replica": "r", "model": "m", "ordinal": 2**40, "fingerprint": "f"}
    right = [
        encode(Welcome(epoch=3, heartbeat_s=float("nan"))),
        encode(Welcome(epoch=3, heartbeat_s=-1e300)),
        encode(StopShard(seq=2**60, shard="../../etc", generation=Generation(2**60, 1))),
        encode(LogsRequest(request_id=-(2**60), source="\n" * 500, lines=-5)),
        b"\0" + msgspec.msgpack.encode({"type": "no-such-frame", "x": [1] * 50}),
        b"\0"
        + msgspec.msgpack.encode(
            {"type": "start-shard", "seq": -4, "spec": shard | {"generation": [1, 1], "profile": profile}}
        ),
        b"\0" + b"\x91" * 5000,
        b"\1" + b"\x28\xb5\x2f\xfd" + bytes(40),
        b"",
    ]
    made: list[bytes | str] = ["a text", *right]
    while len(made) < count:
        base = bytearray(chance.choice(right) or b"\0")
        for _ in range(chance.randint(1, 4)):
            base[chance.randrange(len(base))] = chance.randrange(256)
        cut = bytes(base[: chance.randint(0, len(base))])
        made.append(chance.choice((bytes(base), cut, chance.randbytes(chance.randint(1, 300)))))
    return made


async def test_two_thousand_hostile_frames_leave_the_link_alive(tmp_path: Path) -> None:
    async with FakeHub() as hub, FakeAgent(tmp_path, (hub.port,)) as agent:
        await hub.until(lambda: hub.of(Register))
        for data in hostile_frames(2000):
            await hub.send_bytes(data)
        await hub.send(StartShard(seq=424242, spec=agent.spec("--forbidden", counter=9)))
        await hub.acked(424242)
        beats = len(hub.of(Heartbeat))
        await hub.send(Welcome(epoch=1, heartbeat_s=0.1))
        await hub.until(lambda: len(hub.of(Heartbeat)) > beats + 1)

    assert len(hub.connections) == 1


@pytest.mark.slow
@pytest.mark.parametrize("protocol", [0, 2])
async def test_a_server_of_another_protocol_that_says_more_than_is_known_is_served_all_the_same(
    tmp_path: Path, protocol: int
) -> None:
    async with FakeHub(protocol=protocol) as hub, FakeAgent(tmp_path, (hub.port,)) as agent:
        await hub.until(lambda: hub.of(Heartbeat))
        later = msgspec.msgpack.encode({"type": "later-frame", "seq": 1, "much": {"more": [1]}})
        await hub.send_bytes(b"\0" + later)
        start = msgspec.to_builtins(StartShard(seq=2, spec=agent.spec())) | {
            "type": "start-shard",
            "later": 1,
        }
        await hub.send_bytes(b"\0" + msgspec.msgpack.encode(start))
        ready = await hub.phase(Phase.READY)
        await hub.send(StopShard(seq=3, shard="m.0.0", generation=Generation(1, 1)))
        await hub.phase(Phase.STOPPED)
        ack = await hub.acked(3)

    assert len(hub.connections) == 1
    assert ready.port
    assert ack.error is None
