import asyncio

from fakes.catalogs import a_catalog, a_model
from fakes.fleets import a_fleet
from fakes.nodes import a_shard, an_introduction

from llmgw.core.fleet.catalog import Catalog
from llmgw.core.fleet.shards import Phase
from llmgw.core.fleet.snapshot import Fleet
from llmgw.server.opening import all_served, until_known

WANTED = a_catalog(a_model("gemma"), a_model("idle", replicas=0))
SERVED = a_fleet(an_introduction(shards=(a_shard(model="gemma", phase=Phase.READY),)))
LOADING = a_fleet(an_introduction(shards=(a_shard(model="gemma", phase=Phase.STARTING),)))


class Start:
    """A server start: what it knows, and whether it waits for nodes."""

    def __init__(self, fleet: Fleet) -> None:
        self.observed = fleet
        self.hold: object | None = "waits for n2"

    def catalog(self) -> Catalog:
        return WANTED

    def fleet(self) -> Fleet:
        return self.observed


def test_a_model_without_an_engine_that_answers_is_not_served() -> None:
    assert not all_served(WANTED, Fleet())
    assert not all_served(WANTED, LOADING)
    assert all_served(WANTED, SERVED)


def test_nothing_wanted_is_served_by_nobody() -> None:
    assert all_served(Catalog(), Fleet())


async def test_clients_are_let_in_when_every_model_answers_though_a_node_is_missing() -> None:
    start = Start(Fleet())
    waiting = asyncio.ensure_future(until_known(start, start))
    await asyncio.sleep(0)

    waited = not waiting.done()
    start.observed = SERVED
    await asyncio.wait_for(waiting, 5)

    assert waited


async def test_clients_are_let_in_when_nothing_is_waited_for_though_a_model_is_missing() -> None:
    start = Start(Fleet())
    waiting = asyncio.ensure_future(until_known(start, start))
    await asyncio.sleep(0)

    waited = not waiting.done()
    start.hold = None
    await asyncio.wait_for(waiting, 5)

    assert waited
