import asyncio
import contextlib
from typing import Any

from fakes.clock import FakeClock
from fakes.nodes import a_shard, an_introduction
from fakes.peak_store import FakePeakStore
from fakes.waiting import until
from msgspec.structs import replace

from llmgw.control.fleet import ObservedFleet
from llmgw.control.peaks import Peaks
from llmgw.core.fleet.beat import Beat, ShardUse


class House:
    """A fleet of one node with one shard, and the peaks of it."""

    def __init__(self, **settings: Any) -> None:
        clock = FakeClock()
        self.fleet = ObservedFleet(clock)
        shard = replace(a_shard("gemma", 0), fingerprint="f1", engine_version="b1")
        self.shard = shard.shard
        self.fleet.register(an_introduction("n1", shards=(shard,)), connection=1, on_the_way={})
        self.store = FakePeakStore()
        self.peaks = Peaks(self.store, self.fleet, clock=clock, **settings)

    def measured(self, peak_bytes: int) -> None:
        use = ShardUse(shard=self.shard, memory_bytes=1, peak_bytes=peak_bytes)
        self.fleet.heard("n1", connection=1, said=Beat(uses=(use,)))


async def test_what_a_node_measured_is_told_at_once_and_kept() -> None:
    house = House()
    house.measured(1000)

    await house.peaks.look()

    assert house.peaks.of("f1", "b1") == house.peaks.of("f1") == 1000
    assert house.peaks.of("f1", "b2") is None
    assert house.peaks.of("f2") is None
    assert [[peak.peak_bytes for peak in batch] for batch in house.store.batches] == [[1000]]


async def test_nothing_new_is_not_written() -> None:
    house = House()
    house.measured(1000)
    await house.peaks.look()

    house.measured(1005)
    await house.peaks.look()

    assert len(house.store.batches) == 1


async def test_a_peak_never_falls() -> None:
    house = House()
    house.measured(1000)
    await house.peaks.look()

    house.measured(10)
    await house.peaks.look()

    assert house.peaks.of("f1") == 1000


async def test_what_cannot_be_written_counts_and_is_written_later_with_what_came_since() -> None:
    house = House()
    house.store.broken = True
    house.measured(1000)
    await house.peaks.look()
    told = house.peaks.of("f1")

    house.measured(2000)
    house.store.broken = False
    await house.peaks.look()

    assert told == 1000
    assert [[peak.peak_bytes for peak in batch] for batch in house.store.batches] == [[2000]]


async def test_of_several_versions_the_highest_counts_when_none_is_named() -> None:
    house = House()
    house.measured(1000)
    await house.peaks.look()
    (known,) = house.store.batches[0]

    again = House(known=(known, replace(known, version="b0", peak_bytes=5000)))

    assert (again.peaks.of("f1"), again.peaks.of("f1", "b1"), again.peaks.of("f1", "b0")) == (
        5000,
        1000,
        5000,
    )


async def test_it_looks_again_and_again_and_once_more_when_it_ends() -> None:
    house = House(every_s=0.01)
    running = asyncio.create_task(house.peaks.run())
    house.measured(1000)
    await until(lambda: house.store.batches)

    house.measured(2000)
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running

    assert house.store.batches[-1][-1].peak_bytes == 2000
