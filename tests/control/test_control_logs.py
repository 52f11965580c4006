"""The newest lines of a node, and why there are none."""

import pytest
from fakes.log_streams import FakeStreams

from llmgw.control.logs import Logs
from llmgw.control.pairing import Declined, Gone, NoAnswer, NoStream
from llmgw.core.fleet.logs import LogTail
from llmgw.wire.frames import LogsReply


async def test_lines_of_a_node_come_with_its_sources() -> None:
    streams = FakeStreams()
    streams.reply = LogsReply(request_id=1, lines=("1", "2"), sources=("agent", "m.0.0"), left_out=3)

    tail = await Logs(streams).tail("n1", "m.0.0", 20)

    assert tail == LogTail(lines=("1", "2"), sources=("agent", "m.0.0"), left_out=3)
    assert streams.requests == [("n1", "m.0.0", 20)]


@pytest.mark.parametrize("outcome", [NoStream("a"), NoAnswer("a"), Gone("a"), Declined("a")])
async def test_whatever_goes_wrong_is_an_error_with_a_source(
    outcome: NoStream | NoAnswer | Gone | Declined,
) -> None:
    streams = FakeStreams()
    streams.reply = outcome

    assert await Logs(streams).tail("n1") == LogTail(error="a", sources=("agent",))


async def test_a_reply_without_sources_has_the_agent_itself() -> None:
    streams = FakeStreams()
    streams.reply = LogsReply(request_id=1, lines=("1",))

    assert (await Logs(streams).tail("n1")).sources == ("agent",)


@pytest.mark.parametrize("source", ["", "a\nb", "x" * 201])
async def test_what_can_be_no_source_is_refused_without_asking_the_node(source: str) -> None:
    streams = FakeStreams()

    tail = await Logs(streams).tail("n1", source)
    [event] = [event async for event in Logs(streams).follow("n1", source)]

    assert "is no source" in (tail.error or "")
    assert event.ended
    assert (streams.requests, streams.asked) == ([], [])


@pytest.mark.parametrize(("asked", "sent"), [(-5, 1), (0, 1), (5000, 2000), (7, 7)])
async def test_the_number_of_lines_is_bounded(asked: int, sent: int) -> None:
    streams = FakeStreams()

    await Logs(streams).tail("n1", "agent", asked)

    assert streams.requests == [("n1", "agent", sent)]
