"""When a starting server lets clients in: not before it knows again what runs, if that is known soon.

The client port listens from the start, so that connections wait in the kernel and none is refused; a restart then costs
a moment's wait and no request. Clients are let in as soon as every wanted model has an engine that answers, or nothing
is waited for any more: all known nodes have registered, or the start's grace is over.
"""

import asyncio
from typing import Protocol

from llmgw.core.fleet.catalog import Catalog
from llmgw.core.fleet.serving import serving_shards
from llmgw.core.fleet.snapshot import Fleet

LOOK_EVERY_S = 0.05


class Observed(Protocol):
    """What is wanted and what is known to run."""

    def catalog(self) -> Catalog:
        """What is wanted."""

    def fleet(self) -> Fleet:
        """What is observed."""


class Holding(Protocol):
    """Who knows what a starting server waits for."""

    @property
    def hold(self) -> object | None:
        """Why nothing is placed for now; None when nothing is waited for."""


def all_served(catalog: Catalog, fleet: Fleet) -> bool:
    """Tell whether every wanted model has an engine that answers."""
    serving = serving_shards(fleet)
    return all(serving.get(model.name) for model in catalog.models if model.replicas)


async def until_known(observed: Observed, holding: Holding) -> None:
    """Return when clients may be let in."""
    # Nodes, phases and the clock can each end it; no one event stands for them.
    while holding.hold is not None and not all_served(  # noqa: ASYNC110
        observed.catalog(), observed.fleet()
    ):
        await asyncio.sleep(LOOK_EVERY_S)
