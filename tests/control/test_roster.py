import asyncio
from contextlib import asynccontextmanager

import pytest
from fakes.clock import FakeClock
from fakes.nodes import an_introduction
from fakes.stores import MemoryNodeStore
from fakes.waiting import until

from llmgw.control.fleet import ObservedFleet
from llmgw.control.roster import Roster


@asynccontextmanager
async def _running(roster: Roster):
    task = asyncio.create_task(roster.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_new_node_is_remembered_once() -> None:
    store, fleet = MemoryNodeStore("old"), ObservedFleet(FakeClock())
    roster = Roster(store, fleet, clock=FakeClock(), known=await store.known())

    async with _running(roster):
        for number, name in enumerate(["old", "new", "new"], start=1):
            fleet.register(an_introduction(name), connection=number, on_the_way={})
        await until(lambda: "new" in store.nodes)
        fleet.disconnected("new", connection=3)
        await roster.write_down()

    assert store.nodes == ["old", "new"]


async def test_nodes_that_are_new_together_are_written_down_together() -> None:
    store, fleet = MemoryNodeStore(), ObservedFleet(FakeClock())
    roster = Roster(store, fleet, clock=FakeClock(), known=())
    for number in range(50):
        fleet.register(an_introduction(f"n{number:02}"), connection=number, on_the_way={})

    await roster.write_down()

    assert store.nodes == [f"n{number:02}" for number in range(50)]
    assert store.writes == 1


async def test_a_node_that_cannot_be_written_down_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    store, fleet = MemoryNodeStore(), ObservedFleet(FakeClock())
    roster = Roster(store, fleet, clock=FakeClock(), known=(), try_again_s=0)
    store.broken = True

    async with _running(roster):
        fleet.register(an_introduction(), connection=1, on_the_way={})
        await until(lambda: caplog.records)
        store.broken = False
        await until(lambda: store.nodes == ["n1"])

    assert "new nodes cannot be remembered: the database is full; trying again" in caplog.text
