"""Followed sources: asked for once, told to all, gone on with over every break."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest
from fakes.log_streams import FakeStreams, taking
from fakes.waiting import until

from llmgw.control.follow import KEPT_LINES, Follows
from llmgw.core.fleet.logs import LogEvent, LogPiece


class _House:
    """Follows over streams that a test speaks for."""

    def __init__(self) -> None:
        self.streams = FakeStreams()
        self.follows = Follows(self.streams, first_limit_s=10.0)
        self.numbers: dict[int, int] = {}
        self.viewers: list[AsyncIterator[LogEvent]] = []

    def viewer(
        self, source: str = "s", lines: int = 10, cursor: str | None = None
    ) -> AsyncIterator[LogEvent]:
        made = self.follows.follow("n1", source, lines, cursor)
        self.viewers.append(made)
        return made

    def say(self, *lines: str, id: int = 1, **given: Any) -> None:
        """Let the agent send a piece."""
        self.numbers[id] = self.numbers.get(id, 0) + 1
        self.follows.heard("n1", id, self.numbers[id], LogPiece(lines=lines, **{"live": True} | given))


@pytest.fixture
async def house() -> AsyncIterator[_House]:
    made = _House()
    yield made
    for viewer in made.viewers:
        await viewer.aclose()  # type: ignore[attr-defined] # they are generators


async def begun(house: _House, viewer: AsyncIterator[LogEvent], *lines: str, **given: Any) -> LogEvent:
    """Ask for a first event, let the agent give the first piece, and return the event."""
    coming = asyncio.ensure_future(anext(viewer))
    await house.streams.next_asked(1)
    house.say(*lines, **given)
    return await coming


def lines_of(events: list[LogEvent]) -> list[str]:
    return [line for event in events for line in event.lines]


async def test_a_viewer_sees_the_newest_lines_it_asked_for_and_then_what_comes(house: _House) -> None:
    viewer = house.viewer(lines=2)

    first = await begun(house, viewer, "1", "2", "3", cursor="c:3", sources=("agent", "s"))
    house.say("4", cursor="c:4")
    [second] = await taking(viewer, 1)

    assert (first.lines, first.cursor, first.sources) == (("2", "3"), "c:3", ("agent", "s"))
    assert (second.lines, second.cursor) == (("4",), "c:4")
    assert house.streams.asked[0][3:] == (None, None, KEPT_LINES)
    assert house.streams.taken == [(1, 1), (1, 2)]


async def test_nothing_is_shown_before_the_newest_line_is_there(house: _House) -> None:
    viewer = house.viewer(lines=2)
    coming = asyncio.ensure_future(anext(viewer))
    await house.streams.next_asked(1)
    house.say("1", "2", live=False)
    await asyncio.sleep(0)
    early = coming.done()
    house.say("3", cursor="c:3")

    assert not early
    assert (await coming).lines == ("2", "3")


async def test_a_source_that_grows_faster_than_it_is_read_is_shown_all_the_same(house: _House) -> None:
    viewer = house.viewer(lines=1)

    event = await begun(house, viewer, *map(str, range(KEPT_LINES)), live=False)

    assert event.lines == (str(KEPT_LINES - 1),)


async def test_fifty_viewers_are_one_follow_at_the_agent_and_see_the_same(house: _House) -> None:
    viewers = [house.viewer(lines=1) for _ in range(50)]
    firsts = [asyncio.ensure_future(anext(viewer)) for viewer in viewers]
    await house.streams.next_asked(1)
    house.say("1", cursor="c:1")
    await asyncio.gather(*firsts)
    house.say("2", cursor="c:2")

    seen = [await taking(viewer, 1) for viewer in viewers]

    assert {event.lines for [event] in seen} == {("2",)}
    assert len(house.streams.asked) == 1


async def test_a_viewer_who_comes_later_sees_what_is_kept_without_asking_the_agent(house: _House) -> None:
    await begun(house, house.viewer(), "1", "2", cursor="c:2")
    house.say("3", cursor="c:3")

    [event] = await taking(house.viewer(lines=2), 1)

    assert event.lines == ("2", "3")
    assert len(house.streams.asked) == 1


async def test_the_last_viewer_to_leave_ends_the_follow_at_the_agent(house: _House) -> None:
    async with aclosing(house.viewer()) as first:  # type: ignore[type-var] # a generator
        await begun(house, first, "1", cursor="c:1")
        async with aclosing(house.viewer()) as second:  # type: ignore[type-var] # a generator
            await taking(second, 1)
        stopped_early = list(house.streams.stopped)

    assert stopped_early == []
    assert house.streams.stopped == [1]
    house.say("late")
    assert house.streams.stopped == [1, 1]


async def test_a_slow_viewer_is_told_how_many_lines_it_missed_and_holds_up_nobody(house: _House) -> None:
    slow, quick = house.viewer(), house.viewer()
    await begun(house, slow, "0", cursor="c:0")
    await taking(quick, 1)
    seen = ["0"]
    for number in range(1, 3 * KEPT_LINES):
        house.say(str(number), cursor=f"c:{number}")
        seen += lines_of(await taking(quick, 1))

    marker, after = await taking(slow, 2)

    assert seen == [str(number) for number in range(3 * KEPT_LINES)]
    missed = int(after.lines[0]) - 1
    assert marker.marker == f"{missed} lines are left out here, because this viewer did not keep up"
    assert 2 * KEPT_LINES - 2 <= missed <= 2 * KEPT_LINES
    assert len(house.streams.taken) == 3 * KEPT_LINES


async def test_a_stream_that_ends_is_waited_for_and_the_follow_goes_on_from_its_cursor(house: _House) -> None:
    viewer = house.viewer()
    await begun(house, viewer, "1", cursor="c:1")
    house.streams.away.add("n1")
    house.follows.disconnected("n1")
    [away] = await taking(viewer, 1)
    house.streams.away.clear()
    house.follows.connected("n1")
    house.say("late, of the stream that ended", id=1)
    house.say("2", id=2, cursor="c:2")
    [back] = await taking(viewer, 1)

    assert away.note == "node n1 has no stream to this server; waiting for it"
    assert house.streams.asked[1].cursor == "c:1"
    assert (back.lines, back.note) == (("2",), None)


async def test_a_node_without_a_stream_is_said_and_followed_when_it_comes(house: _House) -> None:
    house.streams.away.add("n1")
    viewer = house.viewer()
    [away] = await taking(viewer, 1)
    house.streams.away.clear()
    house.follows.connected("n1")
    house.say("1", id=house.streams.asked[0].id, cursor="c:1")

    [first] = await taking(viewer, 1)

    assert away.note is not None
    assert first.lines == ("1",)


async def test_an_agent_that_says_nothing_is_given_up_in_words() -> None:
    follows = Follows(FakeStreams(), first_limit_s=0.01)

    events = [event async for event in follows.follow("n1", "s", 10)]

    assert events[-1].ended
    assert events[-1].error == (
        "the agent of n1 did not answer within 0.01 s; it may be too old to follow logs, or stuck"
    )


async def test_a_source_that_is_not_there_ends_with_the_nodes_words_and_its_sources(house: _House) -> None:
    viewer = house.viewer(source="NOPE")
    last = await begun(house, viewer, ended=True, error="no log source 'NOPE'", sources=("agent",))

    assert (last.ended, last.error, last.sources) == (True, "no log source 'NOPE'", ("agent",))
    assert house.streams.stopped == []


async def test_a_viewer_with_the_cursor_of_a_kept_piece_goes_on_right_behind_it(house: _House) -> None:
    await begun(house, house.viewer(), "1", cursor="c:1")
    for number in (2, 3):
        house.say(str(number), cursor=f"c:{number}")

    events = await taking(house.viewer(cursor="c:1"), 2)

    assert lines_of(events) == ["2", "3"]
    assert len(house.streams.asked) == 1


async def test_a_viewer_with_the_newest_cursor_sees_what_comes(house: _House) -> None:
    await begun(house, house.viewer(), "1", cursor="c:1")
    viewer = house.viewer(cursor="c:1")
    coming = asyncio.ensure_future(anext(viewer))
    await asyncio.sleep(0)
    house.say("2", cursor="c:2")

    assert (await coming).lines == ("2",)


async def test_what_a_viewer_missed_is_brought_for_it_alone_up_to_what_is_kept(house: _House) -> None:
    other = house.viewer()
    await begun(house, other, "8", "9", cursor="c:9")
    viewer = house.viewer(cursor="c:5")
    coming = asyncio.ensure_future(taking(viewer, 4))
    asked = await house.streams.next_asked(2)
    house.say("10", cursor="c:10")
    house.say("6", "7", id=2, cursor="c:7", live=False)
    house.say("8", "9", id=2, cursor="c:9", ended=True)
    house.say("11", cursor="c:11")

    events = await coming

    assert (asked.cursor, asked.until) == ("c:5", "c:9")
    assert lines_of(events) == ["6", "7", "8", "9", "10", "11"]
    assert not any(event.ended for event in events)
    assert lines_of(await taking(other, 2)) == ["10", "11"]


async def test_what_is_missed_is_sent_no_faster_than_the_viewer_takes_it(house: _House) -> None:
    await begun(house, house.viewer(), "9", cursor="c:9")
    viewer = house.viewer(cursor="c:5")
    coming = asyncio.ensure_future(anext(viewer))
    await house.streams.next_asked(2)
    house.say("6", id=2, cursor="c:6", live=False)
    house.say("7", id=2, cursor="c:7", live=False)
    await coming
    taken_of_one = [number for id, number in house.streams.taken if id == 2]
    await taking(viewer, 1)

    assert taken_of_one == []
    assert (2, 1) in house.streams.taken


async def test_a_viewer_goes_on_catching_up_until_it_meets_what_is_kept(house: _House) -> None:
    await begun(house, house.viewer(), "9", cursor="c:9")
    viewer = house.viewer(cursor="c:5")
    coming = asyncio.ensure_future(taking(viewer, 2))
    await house.streams.next_asked(2)
    for number in range(10, 10 + KEPT_LINES + 5):
        house.say(str(number), cursor=f"c:{number}")
    house.say("6", id=2, cursor="c:9", ended=True)
    second = await house.streams.next_asked(3)
    house.say("10", id=3, cursor=second.until, ended=True)

    assert lines_of(await coming) == ["6", "10"]
    assert (second.cursor, second.until) == ("c:9", f"c:{10 + KEPT_LINES + 4}")


async def test_a_catch_up_survives_the_end_of_the_stream(house: _House) -> None:
    await begun(house, house.viewer(), "9", cursor="c:9")
    viewer = house.viewer(cursor="c:5")
    coming = asyncio.ensure_future(taking(viewer, 2))
    await house.streams.next_asked(2)
    house.say("6", id=2, cursor="c:6", live=False)
    house.follows.disconnected("n1")
    house.follows.connected("n1")
    again = next(asked for asked in house.streams.asked[2:] if asked.until is not None)
    house.say("7", id=again.id, cursor="c:9", ended=True)

    assert lines_of(await coming) == ["6", "7"]
    assert again.cursor == "c:6"


async def test_the_end_of_the_server_ends_every_viewer_without_ending_the_source(house: _House) -> None:
    live, waiting = house.viewer(), house.viewer(source="other")
    await begun(house, live, "1", cursor="c:1")
    never = asyncio.ensure_future(anext(waiting))
    await house.streams.next_asked(2)
    coming = asyncio.ensure_future(anext(live))
    await asyncio.sleep(0)

    house.follows.close()

    for event in (await coming, await never):
        assert not event.ended
        assert "the server is ending" in (event.note or "")
    with pytest.raises(StopAsyncIteration):
        await anext(live)


async def test_a_bad_cursor_is_said_and_the_newest_lines_are_shown(house: _House) -> None:
    viewer = house.viewer(lines=1, cursor="c\nid: x")
    [said] = await taking(viewer, 1)
    first = await begun(house, viewer, "1", "2", cursor="c:2")

    assert "is no cursor" in (said.marker or "")
    assert first.lines == ("2",)


async def test_a_cursor_of_an_agent_that_would_break_a_line_is_dropped(house: _House) -> None:
    event = await begun(house, house.viewer(), "1", cursor="c\ndata: forged")

    assert event.cursor is None


async def test_what_is_missing_is_said_before_the_lines(house: _House) -> None:
    viewer = house.viewer()
    await begun(house, viewer, "1", cursor="c:1")
    house.say("2", cursor="c:2", lost_bytes=4096)
    house.say("3", cursor="c:3", lost_lines=7)
    house.say("4", cursor="c:4", new_run=True, gap=True)

    events = await taking(viewer, 3)

    assert [event.marker for event in events] == [
        "4.0 KiB (4096 bytes) were overwritten before they could be shown",
        "7 lines were overwritten before they could be shown",
        "some lines are gone, and nobody counted them; a new run begins",
    ]


async def test_a_piece_of_a_node_that_was_not_asked_is_not_heard(house: _House) -> None:
    viewer = house.viewer()
    coming = asyncio.ensure_future(anext(viewer))
    await house.streams.next_asked(1)
    house.follows.heard("n2", 1, 1, LogPiece(lines=("forged",), live=True))
    house.say("1", cursor="c:1")

    assert (await coming).lines == ("1",)
    await until(lambda: house.streams.stopped == [1])
