"""The hub over real sockets: who may speak, who is heard, what goes back, and what no peer can do to it."""

import asyncio
import contextlib
import logging
import random
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from fakes.catalogs import a_profile
from fakes.clock import FakeClock
from fakes.linked_agent import LinkedAgent
from fakes.nodes import LLAMA, a_shard, an_introduction
from msgspec.structs import replace

from llmgw.control.fleet import ObservedFleet
from llmgw.control.hub import MOST_COMPLAINTS, REFUSED, SUPERSEDED, Greeting, Hub
from llmgw.control.pairing import Declined, Gone, NoStream
from llmgw.core.fleet.hardware import Memory
from llmgw.core.fleet.logs import LogPiece
from llmgw.core.fleet.shards import Phase, ShardSpec
from llmgw.core.fleet.snapshot import Node, NodeState
from llmgw.core.fleet.weights import Progress
from llmgw.core.ids import Generation
from llmgw.ui.present.nodes import node_warnings
from llmgw.wire.codec import LARGEST_BYTES
from llmgw.wire.frames import (
    PROTOCOL,
    Ack,
    AskRegister,
    DrainShard,
    FollowLogs,
    Heartbeat,
    LogLines,
    LogsReply,
    LogsRequest,
    LookFor,
    Provision,
    Register,
    RemoveWeights,
    ShardStatus,
    StartShard,
    StopFollow,
    StopShard,
    TakenLogs,
    WeightsRemoved,
    Welcome,
)

GREETING = Greeting(epoch=7, heartbeat_s=2.5, version="1.0")
SPEC = ShardSpec(
    shard="gemma.0.0",
    replica="gemma.0",
    model="gemma",
    ordinal=0,
    generation=Generation(7, 1),
    fingerprint=a_profile().fingerprint(),
    profile=a_profile(),
)


class _House:
    """A hub that listens, and its fleet."""

    def __init__(self, register_within_s: float) -> None:
        self.clock = FakeClock()
        self.fleet = ObservedFleet(self.clock)
        self.hub = Hub(self.fleet, clock=self.clock, greeting=GREETING, register_within_s=register_within_s)
        self.changed = asyncio.Event()
        self.fleet.listen(self.changed.set)
        self.port = 0

    def agent(self) -> LinkedAgent:
        return LinkedAgent(self.port)

    def node(self, node_id: str = "n1") -> Node:
        return self.fleet.value.nodes[node_id]

    async def until(self, condition: Callable[[], Any]) -> None:
        """Wait until a change of the fleet makes `condition` true."""
        async with asyncio.timeout(10):
            while not condition():
                self.changed.clear()
                await self.changed.wait()


@asynccontextmanager
async def a_house(register_within_s: float = 10.0) -> AsyncIterator[_House]:
    house = _House(register_within_s)
    listener = socket.create_server(("127.0.0.1", 0))
    house.port = listener.getsockname()[1]
    async with house.hub.listening(listener):
        yield house


@pytest.fixture
async def house() -> AsyncIterator[_House]:
    async with a_house() as made:
        yield made


async def test_a_register_is_answered_with_a_welcome_and_shows_in_the_fleet(house: _House) -> None:
    async with house.agent() as agent:
        welcome = await agent.register(shards=(a_shard(),))

        assert welcome == Welcome(protocol=PROTOCOL, epoch=7, heartbeat_s=2.5, version="1.0")
        assert house.node().state == NodeState.READY
        assert house.node().shards == {"gemma.0.0": a_shard()}


async def test_what_comes_before_register_is_dropped_and_answered_once_with_a_request_to_register(
    house: _House,
) -> None:
    async with house.agent() as agent:
        for _ in range(3):
            await agent.say(Heartbeat())
        await agent.report(a_shard())
        await agent.register()

        assert len(agent.of(AskRegister)) == 1
        assert agent.of(Ack) == []
        assert house.node().shards == {}


async def test_a_connection_that_does_not_register_in_time_is_closed() -> None:
    async with a_house(register_within_s=0.05) as house, house.agent() as agent:
        code, reason = await agent.until_closed()

        assert (code, reason) == (REFUSED, "no Register came")
        assert house.fleet.value.nodes == {}


async def test_a_heartbeat_is_a_sign_of_life_with_what_it_says(house: _House) -> None:
    async with house.agent() as agent:
        await agent.register(engines=())
        house.clock.advance(5)
        await agent.say(Heartbeat(memory=Memory(total_bytes=8, available_bytes=3), engines=(LLAMA,)))
        await house.until(lambda: house.node().engines == (LLAMA,))

        assert house.node().heard_now == 5.0
        assert house.node().machine.memory.available_bytes == 3


async def test_a_transition_is_taken_acknowledged_and_not_taken_twice(house: _House) -> None:
    async with house.agent() as agent:
        await agent.register()
        status = ShardStatus(seq=4, state=a_shard(phase=Phase.FAILED))
        await agent.say(status)
        await agent.say(status)
        await agent.until(lambda: len(agent.of(Ack)) == 2)

        assert agent.of(Ack) == [Ack(seq=4), Ack(seq=4)]
        assert house.fleet.value.attempts["gemma.0"].count == 1


async def test_commands_reach_the_node_numbered_and_in_order(house: _House) -> None:
    async with house.agent() as agent:
        await agent.register()
        sent = [
            house.hub.start("n1", SPEC),
            house.hub.stop("n1", "gemma.0.0", Generation(7, 1), "scaled down"),
            house.hub.drain("n1", "other.0.0", Generation(7, 2), 30.0, "rolled"),
            house.hub.send("n1", LogsRequest(request_id=5)),
        ]
        await agent.until(lambda: agent.of(LogsRequest))

        assert sent == [True, True, True, True]
        assert agent.told[1:] == [
            StartShard(seq=1, spec=SPEC),
            StopShard(seq=2, shard="gemma.0.0", generation=Generation(7, 1), because="scaled down"),
            DrainShard(
                seq=3, shard="other.0.0", generation=Generation(7, 2), deadline_s=30.0, because="rolled"
            ),
            LogsRequest(request_id=5),
        ]


async def test_a_node_that_is_not_connected_cannot_be_told(house: _House) -> None:
    assert not house.hub.start("n1", SPEC)

    async with house.agent() as agent:
        await agent.register()
    await house.until(lambda: house.node().state == NodeState.UNREACHABLE)

    assert not house.hub.start("n1", SPEC)


async def test_a_frame_that_is_too_large_to_send_is_not_sent_and_the_link_lives(house: _House) -> None:
    huge = replace(SPEC, profile=a_profile(args=("x" * LARGEST_BYTES,)))
    async with house.agent() as agent:
        await agent.register()

        assert not house.hub.start("n1", huge)
        assert house.hub.start("n1", SPEC)
        await agent.started("gemma.0.0")


async def test_a_start_that_the_node_refuses_is_a_failure_in_its_words(house: _House) -> None:
    async with house.agent() as agent:
        await agent.register()
        house.hub.start("n1", SPEC)
        house.fleet.assigned("n1", SPEC)
        await agent.say(Ack(seq=1, error="no such engine"))
        await house.until(lambda: house.node().shards["gemma.0.0"].phase == Phase.FAILED)

        assert house.node().shards["gemma.0.0"].reason == "no such engine"


async def test_a_stop_that_was_taken_ends_what_did_not_run(house: _House) -> None:
    async with house.agent() as agent:
        await agent.register(shards=(a_shard(phase=Phase.FAILED), a_shard("other")))
        house.hub.stop("n1", "gemma.0.0", Generation(1, 1), "")
        house.hub.stop("n1", "other.0.0", Generation(1, 1), "")
        await agent.stopped("other.0.0")
        await agent.stopped("gemma.0.0")
        await house.until(lambda: "gemma.0.0" not in house.node().shards)

        assert set(house.node().shards) == {"other.0.0"}


async def test_a_closed_connection_makes_the_node_unreachable_at_once(house: _House) -> None:
    async with house.agent() as agent:
        await agent.register()
        agent.vanish()
        await house.until(lambda: house.node().state == NodeState.UNREACHABLE)


async def test_a_later_connection_of_a_node_takes_the_place_of_the_earlier(house: _House) -> None:
    async with house.agent() as first, house.agent() as second:
        await first.register()
        await second.register(shards=(a_shard(),))
        code, _ = await first.until_closed()
        house.hub.start("n1", SPEC)
        await second.started("gemma.0.0")

        assert code == SUPERSEDED
        assert first.of(StartShard) == []
        assert house.node().state == NodeState.READY
        assert house.node().connection == 2


async def test_a_superseded_connection_changes_nothing_any_more(house: _House) -> None:
    async with house.agent() as first, house.agent() as second:
        await first.register()
        await second.register(shards=(a_shard(),))
        with contextlib.suppress(Exception):
            await first.report(a_shard(phase=Phase.FAILED))
        await first.until_closed()
        await second.report(a_shard("other"))
        await house.until(lambda: "other.0.0" in house.node().shards)

        assert house.node().shards["gemma.0.0"].phase == Phase.READY


async def test_an_earlier_connection_that_registers_late_is_ended(house: _House) -> None:
    async with house.agent() as early, house.agent() as late:
        await early.say(Heartbeat())
        await early.until(lambda: early.of(AskRegister))
        await late.register(address="10.0.0.2")
        await early.say(Register(said=an_introduction(address="10.0.0.1")))
        code, reason = await early.until_closed()

        assert code == REFUSED
        assert "a later connection of 'n1' has registered" in reason
        assert house.node().address == "10.0.0.2"


async def test_a_live_connection_may_register_again_and_what_is_on_its_way_is_not_forgotten(
    house: _House,
) -> None:
    async with house.agent() as agent:
        await agent.register()
        house.hub.start("n1", SPEC)
        house.fleet.assigned("n1", SPEC)
        await agent.say(Register(said=an_introduction(labels={"gpu": "gone"})))
        await house.until(lambda: house.node().labels == {"gpu": "gone"})

        assert house.node().shards["gemma.0.0"].phase == Phase.PENDING
        assert house.node().connection == 1


async def test_a_connection_may_not_become_another_node(house: _House) -> None:
    async with house.agent() as agent:
        await agent.register()
        await agent.say(Register(said=an_introduction("n2")))
        code, reason = await agent.until_closed()

        assert code == REFUSED
        assert "registered as 'n1' before and now as 'n2'" in reason
        assert set(house.fleet.value.nodes) == {"n1"}


@pytest.mark.parametrize("name", ["", "two words", "../etc", "x" * 500, "é" * 90])
async def test_a_node_with_an_unusable_name_is_refused_with_what_is_wrong(house: _House, name: str) -> None:
    async with house.agent() as agent:
        await agent.say(Register(said=an_introduction(name)))
        code, reason = await agent.until_closed()

        assert (code, reason[:10]) == (REFUSED, "node name ")
        assert house.fleet.value.nodes == {}


async def test_what_was_not_acknowledged_and_is_not_moot_is_sent_again_after_a_reconnect(
    house: _House,
) -> None:
    async with house.agent() as first:
        await first.register()
        house.hub.start("n1", SPEC)
        house.hub.send("n1", Provision(engine="llama.cpp", version="b1"))
        house.hub.send("n1", RemoveWeights(names=("a",)))
        await first.until(lambda: first.of(RemoveWeights))
        await first.say(Ack(seq=3))
        await first.report(a_shard("seen"))
        await house.until(lambda: house.node().shards)
    async with house.agent() as second:
        await second.register()
        await second.until(lambda: second.of(Provision))

        assert [type(frame).__name__ for frame in second.told] == ["Welcome", "Provision"]


async def test_the_welcome_says_which_protocol_the_server_speaks(house: _House) -> None:
    async with house.agent() as agent:
        welcome = await agent.register()

        assert welcome.protocol == PROTOCOL


async def test_an_agent_of_another_protocol_is_welcome(house: _House) -> None:
    async with house.agent() as agent:
        await agent.say(Register(protocol=99, said=an_introduction()))
        await agent.until(lambda: agent.of(Welcome))

        assert (house.node().state, house.node().protocol) == (NodeState.READY, 99)


async def test_a_shard_that_cannot_be_is_told_in_the_log_and_neither_taken_nor_counted_to(
    house: _House, caplog: pytest.LogCaptureFixture
) -> None:
    async with house.agent() as agent:
        await agent.register(shards=(a_shard("one", rank=2**62), a_shard("two", ranks=2**62)))
        await agent.report(a_shard("three", generation=(1, 2**64 - 1)))
        await agent.report(a_shard("four"))
        await house.until(lambda: "four.0.0" in house.node().shards)

    assert sorted(house.node().shards) == ["four.0.0", "two.0.0"]
    assert house.node().shards["two.0.0"].ranks == 1
    assert [
        r.message.partition("tells of a shard ")[2][:20] for r in caplog.records if "cannot be" in r.message
    ] == [
        f"'one.0.{2**62}'"[:20],
        "'three.0.0' that can",
    ]


async def test_an_unknown_frame_is_logged_once_however_often_and_from_wherever_it_comes(
    house: _House, caplog: pytest.LogCaptureFixture
) -> None:
    unknown = b"\0" + msgspec.msgpack.encode({"type": "telepathy", "thought": "blue"})
    async with house.agent() as one, house.agent() as other:
        for agent, name in ((one, "n1"), (other, "n2")):
            await agent.register(node=name)
            for _ in range(3):
                await agent.say_bytes(unknown)
            await agent.report(a_shard())
            await agent.until(lambda agent=agent: agent.of(Ack))

    said = [r.getMessage() for r in caplog.records if "telepathy" in r.getMessage()]
    assert len(said) == 1


async def test_ten_thousand_hostile_frames_leave_the_link_alive_and_the_log_readable(
    house: _House, caplog: pytest.LogCaptureFixture
) -> None:
    chance = random.Random(7)
    caplog.set_level(logging.WARNING)
    async with house.agent() as agent:
        await agent.register(shards=(a_shard(),))
        for number in range(10_000):
            await agent.say_bytes("text" if number % 1000 == 0 else chance.randbytes(chance.randrange(80)))
        await agent.report(a_shard("alive"))
        await house.until(lambda: "alive.0.0" in house.node().shards)

        assert agent.closed is None
        assert house.node().shards["gemma.0.0"] == a_shard()
    assert len([r for r in caplog.records if "dropped" in r.getMessage()]) <= MOST_COMPLAINTS


async def test_ten_thousand_hostile_frames_before_register_do_no_harm_either(house: _House) -> None:
    chance = random.Random(8)
    async with house.agent() as agent:
        for _ in range(10_000):
            await agent.say_bytes(chance.randbytes(chance.randrange(40)))
        await agent.register()

        assert house.node().state == NodeState.READY


async def test_an_answer_that_nobody_asked_for_does_no_harm(house: _House) -> None:
    async with house.agent() as agent:
        await agent.register()
        await agent.say(LogsReply(request_id=99, lines=("x",)))
        await agent.say(Ack(seq=12345, error="what?"))
        await agent.report(a_shard())
        await agent.until(lambda: agent.of(Ack))

        assert agent.closed is None


@pytest.mark.slow
async def test_an_agent_that_does_not_read_blocks_nobody_and_is_cut(house: _House) -> None:
    large = replace(SPEC, profile=a_profile(args=(random.Random(1).randbytes(20_000).hex(),)))
    async with house.agent() as slow, house.agent() as other:
        await slow.register(node="slow")
        await other.register(node="other")
        slow.stop_reading()

        posted = 0
        while house.hub.start("slow", large):
            posted += 1
            if posted % 50 == 0:
                house.hub.start("other", SPEC)
                await other.started("gemma.0.0", after=posted // 50 - 1)
        await house.until(lambda: house.node("slow").state == NodeState.UNREACHABLE)

        assert 1000 < posted < 5000
        assert house.node("other").state == NodeState.READY


async def test_a_fault_while_taking_a_frame_is_answered_and_the_link_lives(
    house: _House, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> None:
        if "boom.0.0" in house.node().shards:
            raise RuntimeError("a listener is broken")

    async with house.agent() as agent:
        await agent.register()
        house.fleet.listen(broken)
        await agent.report(a_shard("boom"))
        ack = await agent.until(lambda: next(iter(agent.of(Ack)), None))

        assert "internal error" in ack.error
        assert agent.closed is None
    assert "a listener is broken" in caplog.text


async def test_what_is_no_websocket_at_all_is_turned_away_without_a_line_in_the_log(
    house: _House, caplog: pytest.LogCaptureFixture
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", house.port)
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    answer = await reader.read()
    writer.close()

    assert answer.startswith(b"HTTP/1.1 426 ")
    assert caplog.records == []


async def test_a_hub_that_ends_closes_every_connection(caplog: pytest.LogCaptureFixture) -> None:
    async with a_house() as house:
        agent = house.agent()
        await agent.open()
        await agent.register()
    code, _ = await agent.until_closed()

    assert code == 1001
    assert house.node().state == NodeState.UNREACHABLE


async def test_a_fault_while_a_node_registers_ends_its_conversation_and_no_other(
    house: _House, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> None:
        if "n2" in house.fleet.value.nodes:
            raise RuntimeError("a listener is broken")

    async with house.agent() as one, house.agent() as other:
        await one.register()
        house.fleet.listen(broken)
        await other.say(Register(said=an_introduction("n2")))
        await other.until_closed()

        assert one.closed is None
    assert "the conversation with n2 at 127.0.0.1 failed" in caplog.text


async def test_a_second_agent_of_one_name_is_refused_while_the_first_is_alive(house: _House) -> None:
    async with house.agent() as first, house.agent() as second:
        await first.say(Register(said=an_introduction(), instance="a"))
        await first.until(lambda: first.of(Welcome))
        await second.say(Register(said=an_introduction(), instance="b"))
        code, reason = await second.until_closed()

        assert code == REFUSED
        assert "is 'n1' already; give one another `node`" in reason
        assert "calls itself by the same name" in node_warnings(house.node())[0]


async def test_a_restarted_agent_takes_the_place_of_one_that_fell_silent(house: _House) -> None:
    async with house.agent() as first, house.agent() as second:
        await first.say(Register(said=an_introduction(), instance="a"))
        await first.until(lambda: first.of(Welcome))
        house.clock.advance(2.5 * GREETING.heartbeat_s)
        await second.say(Register(said=an_introduction(), instance="b"))
        await second.until(lambda: second.of(Welcome))

        assert house.node().connection == 2


async def test_the_same_agent_may_connect_again_at_once(house: _House) -> None:
    async with house.agent() as first, house.agent() as second:
        await first.say(Register(said=an_introduction(), instance="a"))
        await first.until(lambda: first.of(Welcome))
        await second.say(Register(said=an_introduction(), instance="a"))
        await second.until(lambda: second.of(Welcome))

        assert house.node().connection == 2


async def _asked_for_logs(house: _House, agent: LinkedAgent) -> tuple[asyncio.Task[Any], LogsRequest]:
    task = asyncio.create_task(house.hub.ask_for_logs("n1", "agent", 20))
    request: LogsRequest = await agent.until(lambda: next(iter(agent.of(LogsRequest)[-1:]), None))
    return task, request


async def test_a_request_for_logs_is_answered_by_the_reply_of_its_number(house: _House) -> None:
    async with house.agent() as agent:
        await agent.register()
        task, request = await _asked_for_logs(house, agent)
        reply = LogsReply(request_id=request.request_id, lines=("a line",), sources=("agent",))
        await agent.say(LogsReply(request_id=request.request_id + 1))
        await agent.say(reply)

        assert await task == reply
        assert (request.source, request.lines) == ("agent", 20)


async def test_a_request_to_a_node_without_a_stream_is_refused_at_once(house: _House) -> None:
    assert isinstance(await house.hub.ask_for_logs("nobody", "agent", 20), NoStream)


async def test_the_end_of_a_stream_or_of_the_server_ends_its_requests_at_once(house: _House) -> None:
    async with house.agent() as agent:
        await agent.register()
        cut, _ = await _asked_for_logs(house, agent)
        agent.vanish()
        assert isinstance(await cut, Gone)
    async with house.agent() as agent:
        await agent.register()
        waiting, _ = await _asked_for_logs(house, agent)

        house.hub.end_waiting()

        assert await waiting == Gone("the server is ending")


async def test_a_later_stream_of_the_node_ends_the_requests_of_the_earlier(house: _House) -> None:
    async with house.agent() as earlier, house.agent() as later:
        await earlier.register()
        waiting, _ = await _asked_for_logs(house, earlier)

        await later.register()

        assert isinstance(await waiting, Gone)


async def test_an_agent_removes_weights_or_says_why_it_does_not(house: _House) -> None:
    async with house.agent() as agent:
        await agent.register()
        removing = asyncio.create_task(house.hub.ask_to_remove("n1", ("0a1b",)))
        order = await agent.until(lambda: next(iter(agent.of(RemoveWeights)), None))
        await agent.say(Ack(seq=order.seq))
        removed = WeightsRemoved(request_id=order.request_id, removed=("0a1b",), freed_bytes=9)
        await agent.say(removed)
        refusing = asyncio.create_task(house.hub.ask_to_remove("n1", ("2c3d",)))
        other = await agent.until(lambda: next(iter(agent.of(RemoveWeights)[1:]), None))
        await agent.say(Ack(seq=other.seq, error="keeps no weights"))

        assert await removing == removed
        assert await refusing == Declined("keeps no weights")


async def test_agents_are_told_what_to_look_for_when_they_connect_and_when_that_changes(
    house: _House,
) -> None:
    house.hub.look_for(("hf://org/a/a.gguf",))
    async with house.agent() as agent:
        await agent.register()
        first = await agent.until(lambda: agent.of(LookFor))
        house.hub.look_for(("hf://org/a/a.gguf",))
        house.hub.look_for(())
        await agent.until(lambda: len(agent.of(LookFor)) == 2)

    assert agent.told[:2] == [agent.of(Welcome)[0], first[0]]
    assert [frame.sources for frame in agent.of(LookFor)] == [("hf://org/a/a.gguf",), ()]


async def test_an_agent_is_told_of_no_sources_where_the_catalog_names_none(house: _House) -> None:
    async with house.agent() as agent:
        await agent.register()
        await agent.say(Heartbeat())

        assert agent.of(LookFor) == []


async def test_how_far_a_download_is_shows_in_the_fleet_and_wakes_nobody(house: _House) -> None:
    async with house.agent() as agent:
        await agent.register()
        await agent.report(a_shard(phase=Phase.FETCHING))
        await house.until(lambda: "gemma.0.0" in house.node().shards)
        house.changed.clear()
        progress = Progress(cache_name="c", done_bytes=5, total_bytes=9)
        await agent.report(a_shard(phase=Phase.FETCHING, progress=progress))
        await agent.until(lambda: len(agent.of(Ack)) == 2)

        assert house.node().shards["gemma.0.0"].progress == progress
        assert not house.changed.is_set()


class _Follower:
    """Notes what comes of follows."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []
        self.news = asyncio.Event()

    def connected(self, node_id: str) -> None:
        self._note("connected", node_id)

    def disconnected(self, node_id: str) -> None:
        self._note("disconnected", node_id)

    def heard(self, node_id: str, follow_id: int, number: int, piece: LogPiece) -> None:
        self._note("heard", node_id, follow_id, number, piece.lines)

    def _note(self, *told: Any) -> None:
        self.told.append(told)
        self.news.set()

    async def until(self, count: int) -> None:
        async with asyncio.timeout(10):
            while len(self.told) < count:
                self.news.clear()
                await self.news.wait()


async def test_follows_travel_over_the_stream_there_is_and_whoever_follows_hears_of_its_end(
    house: _House,
) -> None:
    follower = _Follower()
    house.hub.listen_to_follows(follower)
    nobody = house.hub.follow("n1", 1, "agent", cursor=None, until=None, lines=9)
    async with house.agent() as agent:
        await agent.register()
        sent = house.hub.follow("n1", 2, "m.0.0", cursor="c:1", until="c:9", lines=9)
        house.hub.take_more("n1", 2, 5)
        house.hub.stop_follow("n1", 2)
        await agent.until(lambda: agent.of(StopFollow))
        await agent.say(LogLines(follow_id=2, number=6, lines=("late",)))
        await follower.until(2)
        async with house.agent() as later:
            await later.register()
            await follower.until(4)
    await follower.until(5)

    assert (nobody, sent) == (False, True)
    assert agent.told[-3:] == [
        FollowLogs(follow_id=2, source="m.0.0", cursor="c:1", until="c:9", lines=9),
        TakenLogs(follow_id=2, number=5),
        StopFollow(follow_id=2),
    ]
    assert follower.told == [
        ("connected", "n1"),
        ("heard", "n1", 2, 6, ("late",)),
        ("disconnected", "n1"),
        ("connected", "n1"),
        ("disconnected", "n1"),
    ]
