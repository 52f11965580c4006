import asyncio

from fakes.held_connection import HeldConnection

from llmgw.control.outbox import Outbox


async def _sent(outbox: Outbox, connection: HeldConnection) -> None:
    """Let the connection take all that waits, up to the goodbye."""
    connection.goes_on.set()
    async with asyncio.timeout(5):
        await outbox.send_all()


async def test_messages_are_sent_in_order_and_a_goodbye_comes_last() -> None:
    connection = HeldConnection()
    outbox = Outbox(connection, most=10)

    taken = [outbox.post(b"one"), outbox.post(b"two")]
    outbox.close(4000, "enough")
    await _sent(outbox, connection)

    assert taken == [True, True]
    assert connection.sent == [b"one", b"two"]
    assert connection.closed == (4000, "enough")


async def test_one_message_too_many_cuts_the_connection_and_nothing_is_taken_any_more() -> None:
    connection = HeldConnection()
    outbox = Outbox(connection, most=2)

    taken = [outbox.post(b"x") for _ in range(4)]

    assert taken == [True, True, False, False]
    assert connection.aborted


async def test_a_goodbye_that_finds_no_room_cuts_the_connection() -> None:
    connection = HeldConnection()
    outbox = Outbox(connection, most=1)
    outbox.post(b"x")

    outbox.close(4000, "enough")

    assert connection.aborted
    assert not outbox.post(b"y")


async def test_a_long_reason_is_cut_between_two_characters() -> None:
    connection = HeldConnection()
    outbox = Outbox(connection, most=1)

    outbox.close(4001, "x" + "é" * 100)
    await _sent(outbox, connection)

    assert connection.closed == (4001, "x" + "é" * 59)
