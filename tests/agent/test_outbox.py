"""What waits to be sent."""

from llmgw.agent.outbox import MOST_ANSWERS, MOST_REPLIES, MOST_REPORTS, Outbox
from llmgw.core.fleet.hardware import Memory
from llmgw.core.fleet.shards import Phase, ShardState
from llmgw.core.fleet.snapshot import Introduction
from llmgw.core.fleet.weights import Progress
from llmgw.core.ids import Generation
from llmgw.wire.frames import Ack, Heartbeat, LogLines, LogsReply, Register, ShardStatus

REGISTER = Register(said=Introduction(node="n", address="a"))


def status(shard: str = "m.0.0", phase: Phase = Phase.PENDING) -> ShardStatus:
    return ShardStatus(
        state=ShardState(shard=shard, replica="m.0", model="m", generation=Generation(1, 1), phase=phase)
    )


async def test_answers_go_before_news_and_news_before_the_one_heartbeat() -> None:
    outbox = Outbox()
    outbox.greeted()
    outbox.beat(Heartbeat())
    outbox.beat(Heartbeat(engines=()))
    outbox.report(status())
    outbox.answer(Ack(seq=1))

    sent = [await outbox.next() for _ in range(3)]

    assert sent == [Ack(seq=1), status(), Heartbeat(engines=())]


async def test_a_long_log_is_never_the_reason_that_a_sign_of_life_comes_late() -> None:
    outbox = Outbox()
    outbox.greeted()
    lines = LogLines(follow_id=1, number=1, lines=("x" * 100,))
    outbox.reply(lines)
    outbox.reply(LogsReply(request_id=1))
    outbox.beat(Heartbeat())
    outbox.report(status())
    outbox.answer(Ack(seq=1))

    sent = [await outbox.next() for _ in range(5)]

    assert sent == [Ack(seq=1), status(), Heartbeat(), lines, LogsReply(request_id=1)]


async def test_replies_are_bounded_and_those_to_an_earlier_connection_are_moot() -> None:
    outbox = Outbox()
    taken = [outbox.reply(LogsReply(request_id=number)) for number in range(MOST_REPLIES + 1)]
    outbox.reopen()
    outbox.greeted()
    outbox.beat(Heartbeat())
    outbox.reply(LogsReply(request_id=7))

    sent = [await outbox.next() for _ in range(2)]

    assert taken == [True] * MOST_REPLIES + [False]
    assert sent == [Heartbeat(), LogsReply(request_id=7)]


async def test_what_only_an_earlier_heartbeat_said_is_not_lost_with_it() -> None:
    outbox = Outbox()
    outbox.greeted()
    outbox.beat(Heartbeat(engines=(), memory=Memory(total_bytes=1)))
    outbox.beat(Heartbeat(memory=Memory(total_bytes=2)))

    assert await outbox.next() == Heartbeat(engines=(), memory=Memory(total_bytes=2))


async def test_a_register_goes_first_and_carries_what_waited() -> None:
    outbox = Outbox()
    outbox.greeted()
    outbox.report(status())
    outbox.register(REGISTER)
    outbox.report(status(phase=Phase.STARTING))

    sent = [await outbox.next() for _ in range(2)]

    assert sent == [REGISTER, status(phase=Phase.STARTING)]


async def test_too_many_reports_come_down_to_the_latest_of_each_shard() -> None:
    outbox = Outbox()
    outbox.greeted()
    for number in range(MOST_REPORTS + 1):
        outbox.report(
            status(f"m.{number % 2}.0", Phase.STARTING if number > MOST_REPORTS - 2 else Phase.PENDING)
        )
    outbox.beat(Heartbeat())

    sent = [await outbox.next() for _ in range(3)]

    assert sent[:2] == [status("m.1.0", Phase.STARTING), status("m.0.0", Phase.STARTING)]
    assert sent[2] == Heartbeat()


async def test_answers_are_bounded() -> None:
    outbox = Outbox()

    taken = [outbox.answer(Ack(seq=seq)) for seq in range(MOST_ANSWERS + 1)]

    assert taken == [True] * MOST_ANSWERS + [False]


async def test_answers_to_an_earlier_connection_are_moot() -> None:
    outbox = Outbox()
    outbox.greeted()
    outbox.answer(Ack(seq=1))
    outbox.reopen()
    outbox.register(REGISTER)
    outbox.greeted()
    outbox.beat(Heartbeat())

    sent = [await outbox.next() for _ in range(2)]

    assert sent == [REGISTER, Heartbeat()]


def going(done_bytes: int, counter: int = 1) -> ShardStatus:
    state = ShardState(
        shard="m.0.0",
        replica="m.0",
        model="m",
        generation=Generation(1, counter),
        phase=Phase.FETCHING,
        progress=Progress(cache_name="c", done_bytes=done_bytes),
    )
    return ShardStatus(state=state)


async def test_of_words_on_a_download_the_latest_wins_and_no_transition_is_lost() -> None:
    outbox = Outbox()
    outbox.greeted()
    entered = status(phase=Phase.FETCHING)
    for frame in (
        status(),
        entered,
        going(1),
        going(2),
        status("m.1.0"),
        going(3),
        status(phase=Phase.STARTING),
    ):
        outbox.report(frame)

    sent = [await outbox.next() for _ in range(5)]

    assert sent == [status(), entered, going(3), status("m.1.0"), status(phase=Phase.STARTING)]


async def test_a_download_of_a_later_generation_takes_no_earlier_ones_place() -> None:
    outbox = Outbox()
    outbox.greeted()
    outbox.report(going(5))
    outbox.report(going(1, counter=2))

    assert [await outbox.next() for _ in range(2)] == [going(5), going(1, counter=2)]
