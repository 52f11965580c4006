"""Requests and follows of one connection, beside whatever else the agent does."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
from fakes.waiting import until

from llmgw.agent.logs.desk import MOST_FOLLOWS, MOST_REQUESTS, REPLY_BYTES, LogDesk, newest_within
from llmgw.agent.logs.ring import Ring
from llmgw.agent.logs.sources import Sources
from llmgw.agent.patience import Looks
from llmgw.agent.state_dir import StateDir
from llmgw.runtime.clock import SystemClock
from llmgw.wire.frames import FollowLogs, LogLines, LogsReply, LogsRequest

T = TypeVar("T")


class _Desk:
    """A desk that runs, its log, and all that it says."""

    def __init__(self, folder: Path, looks: Looks | None = None) -> None:
        self.state_dir = StateDir(str(folder))
        self.state_dir.make()
        self.path = self.state_dir.log_of("m.0.0")
        self.said: list[Any] = []
        sources = Sources("n1", self.state_dir, Ring(), lambda: ())
        self.desk = LogDesk(sources, self.said.append, clock=SystemClock(), looks=looks)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.desk.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def write(self, text: str) -> None:
        with self.path.open("a") as file:
            file.write(text)

    def lines(self, follow_id: int = 1) -> list[str]:
        return [
            line
            for piece in self.said
            if isinstance(piece, LogLines) and piece.follow_id == follow_id
            for line in piece.lines
        ]

    async def until(self, condition: Callable[[], Any]) -> Any:
        return await until(condition)


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[_Desk]:
    made = _Desk(tmp_path)
    async with made.running():
        yield made


async def test_a_request_is_answered_with_the_newest_lines_and_all_sources(desk: _Desk) -> None:
    desk.write("1\n2\n3\n")

    desk.desk.request(LogsRequest(request_id=5, source="m.0.0", lines=2))
    assert desk.said == []
    await desk.until(lambda: desk.said)

    assert desk.said == [LogsReply(request_id=5, lines=("2", "3"), sources=("agent", "m.0.0"))]


async def test_an_answer_holds_the_newest_lines_that_have_room_and_counts_the_others(desk: _Desk) -> None:
    desk.write("".join(f"{number:04d}{'x' * 3000}\n" for number in range(1000)))

    desk.desk.request(LogsRequest(request_id=5, source="m.0.0", lines=1000))
    [reply] = await desk.until(lambda: desk.said)

    assert REPLY_BYTES - 4000 < sum(map(len, reply.lines)) <= REPLY_BYTES
    assert reply.lines[-1].startswith("0999")
    assert reply.left_out == 1000 - len(reply.lines)


async def test_more_requests_than_are_answered_at_once_are_refused(desk: _Desk) -> None:
    for number in range(MOST_REQUESTS + 1):
        desk.desk.request(LogsRequest(request_id=number))
    refused = list(desk.said)
    await desk.until(lambda: len(desk.said) == MOST_REQUESTS + 1)

    assert [reply.request_id for reply in refused] == [MOST_REQUESTS]
    assert "wait on this node already" in refused[0].error
    assert refused[0].sources == ("agent",)


async def test_a_follow_sends_what_comes_until_it_is_stopped(desk: _Desk) -> None:
    desk.write("1\n")
    desk.desk.follow(FollowLogs(follow_id=1, source="m.0.0"))
    await desk.until(lambda: desk.lines() == ["1"])
    desk.write("2\n")
    await desk.until(lambda: desk.lines() == ["1", "2"])

    desk.desk.stop(1)
    desk.write("3\n")
    desk.desk.follow(FollowLogs(follow_id=2, source="m.0.0", lines=1))
    await desk.until(lambda: desk.lines(2) == ["3"])

    assert desk.lines(1) == ["1", "2"]


async def test_a_follow_that_the_server_does_not_take_is_left_alone_and_holds_up_no_other(
    desk: _Desk,
) -> None:
    desk.write("".join(f"{number}\n" for number in range(10_000)))
    desk.desk.follow(FollowLogs(follow_id=1, source="m.0.0", lines=10_000, window=1))
    desk.desk.follow(FollowLogs(follow_id=2, source="m.0.0", lines=1, window=8))
    await desk.until(lambda: desk.lines(2))
    desk.write("last\n")
    await desk.until(lambda: "last" in desk.lines(2))
    sent_before = len(desk.lines(1))

    for number in range(1, 10):
        desk.desk.taken(1, number)
        await desk.until(lambda n=number: len(desk.lines(1)) >= min(2000 * (n + 1), 10_001))

    assert sent_before == 2000
    assert desk.lines(1) == [*(str(number) for number in range(10_000)), "last"]


async def test_a_new_connection_knows_nothing_of_what_an_earlier_one_asked(desk: _Desk) -> None:
    desk.write("1\n")
    desk.desk.follow(FollowLogs(follow_id=1, source="m.0.0"))
    desk.desk.request(LogsRequest(request_id=5))
    desk.desk.reset()
    desk.desk.follow(FollowLogs(follow_id=2, source="m.0.0"))
    await desk.until(lambda: desk.lines(2))

    assert {type(frame) for frame in desk.said} == {LogLines}
    assert {frame.follow_id for frame in desk.said} == {2}


async def test_follows_are_bounded(desk: _Desk) -> None:
    for number in range(MOST_FOLLOWS + 1):
        desk.desk.follow(FollowLogs(follow_id=number))

    [refusal] = [frame for frame in desk.said if frame.error]
    assert refusal.follow_id == MOST_FOLLOWS
    assert refusal.ended


async def test_a_log_that_cannot_be_read_ends_its_follow_and_no_other(desk: _Desk) -> None:
    (desk.state_dir.logs / "bad.0.0.log").symlink_to("/proc/self/mem")
    desk.write("1\n")

    desk.desk.follow(FollowLogs(follow_id=1, source="bad.0.0"))
    desk.desk.follow(FollowLogs(follow_id=2, source="m.0.0"))
    await desk.until(lambda: desk.lines(2) and [f for f in desk.said if f.follow_id == 1])

    [failed] = [frame for frame in desk.said if frame.follow_id == 1]
    assert failed.ended
    assert "cannot be read" in failed.error


class _NotedLooks(Looks):
    """Looks, and notes that it was asked to."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()

    async def within(self, limit_s: float, name: str, function: Callable[[], T]) -> T:
        self.asked.set()
        return await super().within(limit_s, name, function)


async def test_nothing_is_looked_at_once_nobody_follows(tmp_path: Path) -> None:
    looks = _NotedLooks()
    house = _Desk(tmp_path, looks)
    async with house.running():
        house.desk.follow(FollowLogs(follow_id=1, source="agent"))
        await house.until(lambda: house.said)
        await looks.asked.wait()
        house.desk.stop(1)
        # A look that was begun before the stop may be the last.
        looks.asked.clear()
        await asyncio.to_thread(int)
        looks.asked.clear()

        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await looks.asked.wait()


@pytest.mark.parametrize(("most", "kept"), [(0, 0), (6, 1), (12, 2), (100, 3)])
def test_the_newest_lines_have_room_first(most: int, kept: int) -> None:
    lines = ("a", "b", "c")

    assert newest_within(lines, most) == lines[3 - kept :]
