import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from fakes.clock import FakeClock
from fakes.fleets import AT
from fakes.stores import MemoryHistoryStore
from fakes.waiting import until

from llmgw.control.history import KEEP, LATEST, MOST_KEPT, MOST_WAITING, PRUNE_EVERY_S, NodeHistory
from llmgw.core.fleet.events import NodeEvent


def _event(text: str, node: str = "n1") -> NodeEvent:
    return NodeEvent(at=AT, node=node, kind="state", text=text)


class _Kept:
    def __init__(self, *latest: NodeEvent) -> None:
        self.store, self.clock = MemoryHistoryStore(), FakeClock()
        self.history = NodeHistory(self.store, self.clock, latest=latest, batch_s=0, try_again_s=0)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self.history.run())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def _texts(events: tuple[NodeEvent, ...] | list[NodeEvent]) -> list[str]:
    return [event.text for event in events]


def test_the_latest_events_of_each_node_are_kept_in_memory_those_of_earlier_starts_first() -> None:
    kept = _Kept(_event("before"))

    for number in range(LATEST + 5):
        kept.history.record(_event(str(number)))
    kept.history.record(_event("other", "n2"))

    assert _texts(kept.history.of("n1")) == [str(i) for i in range(5, LATEST + 5)]
    assert _texts(kept.history.of("n2")) == ["other"]
    assert kept.history.of("unknown") == ()


async def test_events_are_written_in_batches_behind_whoever_records_them() -> None:
    kept = _Kept()

    async with kept.running():
        for number in range(100):
            kept.history.record(_event(str(number)))
        nothing = list(kept.store.events)
        await until(lambda: len(kept.store.events) == 100)

    assert nothing == []
    assert kept.store.batches < 5


async def test_what_cannot_be_written_is_tried_again_and_nothing_is_lost_or_written_twice(
    caplog: pytest.LogCaptureFixture,
) -> None:
    kept = _Kept()
    kept.store.broken = True

    async with kept.running():
        kept.history.record(_event("first"))
        await until(lambda: "trying again" in caplog.text)
        kept.history.record(_event("second"))
        kept.store.broken = False
        await until(lambda: len(kept.store.events) == 2)

    assert _texts(kept.store.events) == ["first", "second"]


async def test_ending_writes_what_waits() -> None:
    kept = _Kept()
    kept.history = NodeHistory(kept.store, kept.clock, batch_s=3600)

    async with kept.running():
        await asyncio.sleep(0)
        kept.history.record(_event("last"))
        await asyncio.sleep(0)

    assert _texts(kept.store.events) == ["last"]


async def test_what_waits_is_bounded_and_what_is_dropped_is_said(caplog: pytest.LogCaptureFixture) -> None:
    kept = _Kept()

    for number in range(MOST_WAITING + 7):
        kept.history.record(_event(str(number)))
    async with kept.running():
        await until(lambda: kept.store.events)

    assert len(kept.store.events) == MOST_WAITING
    assert kept.store.events[0].text == "7"
    assert "7 events of nodes were not written down" in caplog.text


async def test_old_events_are_removed_now_and_then() -> None:
    kept = _Kept()

    await kept.history.write_down()
    await kept.history.write_down()
    kept.clock.advance(PRUNE_EVERY_S)
    await kept.history.write_down()

    assert kept.store.pruned == [(at - KEEP, MOST_KEPT) for at in (kept.clock.start, kept.clock.at())]


def test_a_node_that_is_forgotten_shows_no_events() -> None:
    kept = _Kept(_event("before"))

    kept.history.forget("n1")
    kept.history.forget("unknown")

    assert kept.history.of("n1") == ()
