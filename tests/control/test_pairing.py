"""Requests and replies meet by number, and every request ends with exactly one outcome."""

import asyncio

import pytest
from fakes.waiting import until

from llmgw.control.pairing import Declined, Gone, NoAnswer, NoStream, Pairing, Unanswered
from llmgw.wire.frames import LogsReply, WeightsRemoved


class _Stream:
    """Notes the numbers that were sent."""

    def __init__(self, *, is_open: bool = True) -> None:
        self.numbers: list[int] = []
        self.is_open = is_open

    def send(self, number: int) -> bool:
        self.numbers.append(number)
        return self.is_open


async def _asked(
    pairing: Pairing, stream: _Stream, node: str = "n1", limit_s: float = 10.0
) -> asyncio.Task[LogsReply | Unanswered]:
    count = len(stream.numbers)
    task = asyncio.create_task(pairing.ask(node, stream.send, LogsReply, limit_s))
    await until(lambda: len(stream.numbers) > count)
    return task


async def test_replies_meet_their_requests_in_whatever_order_they_come() -> None:
    pairing, stream = Pairing(3), _Stream()
    first, second = await _asked(pairing, stream), await _asked(pairing, stream)

    for number in reversed(stream.numbers):
        pairing.answer("n1", number, LogsReply(request_id=number))

    assert await first == LogsReply(request_id=stream.numbers[0])
    assert await second == LogsReply(request_id=stream.numbers[1])


async def test_a_node_without_a_stream_is_said_at_once() -> None:
    pairing = Pairing(1)

    outcome = await pairing.ask("nobody", _Stream(is_open=False).send, LogsReply)

    assert outcome == NoStream("no node called 'nobody' has a stream to this server")


async def test_an_agent_that_never_answers_is_given_up_when_the_limit_passes() -> None:
    pairing = Pairing(1)

    outcome = await pairing.ask("n1", _Stream().send, LogsReply, limit_s=0.01)

    assert outcome == NoAnswer("the agent of n1 did not answer within 0.01 s; it may be too old, or stuck")


async def test_the_end_of_a_stream_ends_what_waits_for_that_node_and_nothing_else() -> None:
    pairing, stream = Pairing(1), _Stream()
    here, there = await _asked(pairing, stream, "n1"), await _asked(pairing, stream, "n2")

    pairing.disconnected("n1")
    pairing.answer("n2", stream.numbers[1], LogsReply(request_id=stream.numbers[1]))

    assert await here == Gone("the stream of n1 ended before it answered")
    assert isinstance(await there, LogsReply)


async def test_the_end_of_the_server_ends_what_waits_and_refuses_what_comes() -> None:
    pairing, stream = Pairing(1), _Stream()
    waiting = await _asked(pairing, stream)

    pairing.close()

    assert await waiting == Gone("the server is ending")
    assert await pairing.ask("n1", stream.send, LogsReply) == Gone("the server is ending")
    assert len(stream.numbers) == 1


async def test_a_command_that_the_agent_refuses_ends_with_the_agents_words() -> None:
    pairing, stream = Pairing(1), _Stream()
    waiting = await _asked(pairing, stream)

    pairing.decline("n1", stream.numbers[0], "keeps no weights")

    assert await waiting == Declined("keeps no weights")


async def test_replies_of_another_node_another_kind_or_an_unknown_number_are_dropped() -> None:
    pairing, stream = Pairing(1), _Stream()
    waiting = await _asked(pairing, stream)
    number = stream.numbers[0]

    pairing.answer("n2", number, LogsReply(request_id=number))
    pairing.answer("n1", number, WeightsRemoved(request_id=number))
    pairing.answer("n1", number + 1, LogsReply(request_id=number + 1))
    await asyncio.sleep(0)

    assert not waiting.done()
    pairing.answer("n1", number, LogsReply(request_id=number, lines=("this one",)))
    pairing.answer("n1", number, LogsReply(request_id=number, lines=("twice",)))
    assert await waiting == LogsReply(request_id=number, lines=("this one",))


async def test_a_request_that_nobody_waits_for_any_more_leaves_nothing_behind() -> None:
    pairing, stream = Pairing(1), _Stream()
    waiting = await _asked(pairing, stream)

    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting

    pairing.answer("n1", stream.numbers[0], LogsReply(request_id=stream.numbers[0]))
    pairing.disconnected("n1")
    pairing.close()


async def test_numbers_of_a_later_start_are_never_those_of_an_earlier_one() -> None:
    earlier, later = _Stream(), _Stream()

    await (await _asked(Pairing(7), earlier, limit_s=0.01))
    await (await _asked(Pairing(8), later, limit_s=0.01))

    assert earlier.numbers[0] < 8 * 2**32 <= later.numbers[0]
