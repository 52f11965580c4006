import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from fakes.clock import FakeClock

from llmgw.core.errors import NotFound
from llmgw.ui.events import KEPT_S, LONGEST_STREAM_S, MOST_KEPT, SILENT_S, Hello, Live
from llmgw.ui.picture import Fragment, Picture, Shown

HELLO = Hello(at_s=1.5, build="b1", token="t1")


class Watched:
    """A thing that is shown; counts how often it was looked at."""

    def __init__(self) -> None:
        self.value = "first"
        self.looks = 0
        self.gone = False

    def show(self) -> Shown:
        self.looks += 1
        if self.gone:
            raise NotFound("it is gone")
        return Shown(title="Thing", parts=(Fragment("thing", "part", self.value),))


class Page:
    """A live page over a watched thing, on a clock that a test moves."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.live = Live(self.clock, every_s=0.001)
        self.thing = Watched()
        self.is_welcome = True

    async def picture(self, path: str = "/thing") -> Picture:
        return await self.live.picture(path, self.thing.show, self.render)

    def stream(self, revision: str | None = None) -> AsyncIterator[bytes]:
        return self.live.stream(
            "/thing",
            self.thing.show,
            self.render,
            revision=revision,
            hello=HELLO,
            may_look=lambda: self.is_welcome,
        )

    @staticmethod
    def render(template: str, id: str, value: Any) -> str:
        return f"<p id={id}>{value}</p>"


@pytest.fixture
def page() -> Page:
    return Page()


def events(message: bytes) -> list[tuple[str, Any]]:
    found = []
    for block in message.decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line)
        if "event" in fields:
            found.append((fields["event"], json.loads(fields["data"])))
    return found


async def test_all_who_look_within_a_second_share_one_look(page: Page) -> None:
    page.live = Live(page.clock)

    first = await page.picture()
    page.clock.advance(0.9)
    second = await page.picture()
    page.clock.advance(0.2)
    await page.picture()

    assert first is second
    assert page.thing.looks == 2


async def test_a_slow_look_is_taken_less_often(page: Page) -> None:
    page.live = Live(page.clock)

    def slow() -> Shown:
        page.clock.advance(0.1)
        return page.thing.show()

    await page.live.picture("/thing", slow, page.render)
    page.clock.advance(4.8)
    await page.live.picture("/thing", slow, page.render)
    early = page.thing.looks
    page.clock.advance(0.2)
    await page.live.picture("/thing", slow, page.render)

    assert (early, page.thing.looks) == (1, 2)


async def test_what_somebody_just_changed_is_looked_at_at_once(page: Page) -> None:
    page.live = Live(page.clock)
    await page.picture()

    page.live.refresh()
    await page.picture()

    assert page.thing.looks == 2


async def test_others_have_their_turns_while_a_large_page_is_rendered(page: Page) -> None:
    turns = 0

    def large() -> Shown:
        return Shown(title="Large", parts=tuple(Fragment(f"{n}", "part", n) for n in range(100)))

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.ensure_future(other())
    await page.live.picture("/large", large, page.render)
    task.cancel()

    assert turns >= 5


async def test_two_who_come_at_once_share_one_look(page: Page) -> None:
    page.live = Live(page.clock)

    first, second = await asyncio.gather(page.picture(), page.picture())

    assert first is second
    assert page.thing.looks == 1


async def test_a_picture_that_nobody_looks_at_is_forgotten(page: Page) -> None:
    first = await page.picture()
    page.clock.advance(KEPT_S + 1)

    assert await page.picture() is not first


async def test_pictures_are_bounded(page: Page) -> None:
    first = await page.picture("/0")
    page.clock.advance(1)
    for number in range(1, MOST_KEPT + 1):
        await page.picture(f"/{number}")

    assert await page.picture("/0") is not first


async def test_a_stream_says_hello_and_then_what_the_page_lacks(page: Page) -> None:
    revision = (await page.picture()).revision
    page.thing.value = "second"
    page.clock.advance(5)

    stream = page.stream(revision)
    hello, patch = await anext(stream), await anext(stream)
    page.live.end()

    assert b"retry: 1000\n" in hello
    assert events(hello) == [("hello", {"at_s": 1.5, "build": "b1", "token": "t1"})]
    ((name, said),) = events(patch)
    assert (name, said["parts"]) == ("patch", {"thing": "<p id=thing>second</p>"})
    assert f"id: {said['revision']}\n".encode() in patch


async def test_a_page_of_an_earlier_server_is_told_everything(page: Page) -> None:
    stream = page.stream("of-an-earlier-start.17")
    await anext(stream)
    ((_, said),) = events(await anext(stream))
    page.live.end()

    assert said["parts"] == {"thing": "<p id=thing>first</p>"}


async def test_a_stream_without_news_shows_that_it_lives(page: Page) -> None:
    stream = page.stream((await page.picture()).revision)
    await anext(stream)
    waiting = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    page.clock.advance(SILENT_S + 1)

    said = await asyncio.wait_for(waiting, 5)
    page.live.end()

    assert said == b": still here\n\n"


async def test_a_thing_that_goes_ends_the_stream_with_the_reason(page: Page) -> None:
    stream = page.stream()
    await anext(stream)
    await anext(stream)
    page.thing.gone = True
    page.clock.advance(5)

    rest = [message async for message in stream]

    assert [events(message) for message in rest] == [[("gone", "it is gone")]]


async def test_the_end_of_the_server_ends_every_stream_at_once(page: Page) -> None:
    page.live = Live(page.clock, every_s=3600)
    streams = [page.stream() for _ in range(3)]
    for stream in streams:
        await anext(stream)
        await anext(stream)
    waiting = [asyncio.ensure_future(anext(stream, b"ended")) for stream in streams]
    await asyncio.sleep(0)

    page.live.end()

    assert await asyncio.wait_for(asyncio.gather(*waiting), 5) == [b"ended"] * 3
    assert [message async for message in page.stream()] == [b"retry: 1000\n\n" + hello_bytes()]


async def test_a_stream_ends_by_itself_so_that_the_viewer_must_show_again_that_it_may_look(
    page: Page,
) -> None:
    stream = page.stream()
    await anext(stream)
    await anext(stream)
    page.clock.advance(LONGEST_STREAM_S + 1)

    assert [message async for message in stream] == []


async def test_nothing_is_looked_at_when_the_last_viewer_has_left(page: Page) -> None:
    stream = page.stream()
    await anext(stream)
    await anext(stream)
    await stream.aclose()  # type: ignore[attr-defined] # it is a generator
    looks = page.thing.looks

    page.clock.advance(100)
    for _ in range(20):
        await asyncio.sleep(0)

    assert page.thing.looks == looks


def hello_bytes() -> bytes:
    return b'event: hello\ndata: {"at_s":1.5,"build":"b1","token":"t1"}\n\n'


async def test_a_stream_ends_as_soon_as_its_viewer_may_look_no_more(page: Page) -> None:
    stream = page.stream()
    [await anext(stream) for _ in range(2)]

    page.is_welcome = False
    page.thing.value = "not for everybody"

    assert [message async for message in stream] == []
