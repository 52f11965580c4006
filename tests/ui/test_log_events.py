"""Events of a followed log, as a browser reads them."""

import json
from collections.abc import AsyncIterator

import pytest
from fakes.logs import FakeLogs

from llmgw.core.fleet.logs import LogEvent
from llmgw.ui.log_events import log_events


async def written(*events: LogEvent) -> list[str]:
    logs = FakeLogs()
    for event in (*events, LogEvent(ended=True)):
        logs.events.put_nowait(event)
    return [message.decode() async for message in log_events(logs.follow("n1", "agent", 5))]


async def test_an_event_is_one_line_of_json_with_the_cursor_behind_it_as_its_id() -> None:
    _, message, _ = await written(LogEvent(lines=("a\u2028b", "c\r\nd"), cursor="c:7", marker="3 lines"))

    head, data, *rest = message.split("\n")
    assert head == "id: c:7"
    assert rest == ["", ""]
    assert json.loads(data.removeprefix("data: ")) == {
        "lines": ["a\u2028b", "c\r\nd"],
        "cursor": "c:7",
        "marker": "3 lines",
        "note": None,
        "ended": False,
        "error": None,
        "sources": None,
    }


async def test_an_event_that_does_not_move_has_no_id() -> None:
    _, message, _ = await written(LogEvent(note="away"))

    assert not message.startswith("id:")


async def test_the_last_event_says_that_it_is() -> None:
    messages = await written()

    assert messages[0] == "retry: 1000\n\n"
    assert messages[-1].startswith("event: end\n")


async def test_a_source_without_news_says_that_it_is_there() -> None:
    logs = FakeLogs()
    messages = log_events(logs.follow("n1", "agent", 5), ping_every_s=0.01)

    assert [await anext(messages) for _ in range(3)] == [
        b"retry: 1000\n\n",
        b": still here\n\n",
        b": still here\n\n",
    ]
    logs.events.put_nowait(LogEvent(lines=("after the pings",)))
    assert b"after the pings" in await anext(messages)
    await messages.aclose()


async def test_a_viewer_that_leaves_ends_the_follow() -> None:
    logs = FakeLogs()
    messages = log_events(logs.follow("n1", "agent", 5), ping_every_s=0.01)
    await anext(messages)
    await anext(messages)
    following = logs.following

    await messages.aclose()

    assert (following, logs.following) == (1, 0)


async def test_a_viewer_who_may_look_no_more_is_told_nothing_more() -> None:
    logs, welcome = FakeLogs(), [True, False]
    messages = log_events(logs.follow("n1", "agent", 5), may_look=lambda: welcome.pop(0))
    for line in ("seen", "unseen"):
        logs.events.put_nowait(LogEvent(lines=(line,)))

    told = b"".join([message async for message in messages])

    assert b'"seen"' in told
    assert b"unseen" not in told
    assert logs.following == 0


async def test_a_fault_of_the_source_ends_the_stream_with_it() -> None:
    async def broken() -> AsyncIterator[LogEvent]:
        raise RuntimeError("broken")
        yield LogEvent()

    with pytest.raises(RuntimeError, match="broken"):
        [message async for message in log_events(broken())]
