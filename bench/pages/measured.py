"""Measure pages over a simulated fleet, in the time of the processor that they take.

That is what they take on a clock where nobody else wants the processor; the clock's time is printed beside it.
"""

from collections.abc import Mapping
from random import Random
from statistics import median
from time import perf_counter, process_time
from typing import Any

import httpx
from fakes.operations import FakeOperations
from fakes.simulated_fleet import SimulatedFleet
from msgspec.structs import replace
from placement.machines import simulated_fleet
from placement.models import mixed_catalog, running_models

from llmgw.core.fleet.catalog import Catalog
from llmgw.core.fleet.snapshot import Fleet
from llmgw.core.placement.place import Refused
from llmgw.ui.app import admin_app

NODES, MODELS, HOPELESS_SHARE = 300, 100, 0.1
GOAL_MS = 200.0
BEATS = 60
"""Signs of life in a second, of a fleet that gives one every five."""


class PlannedOperations(FakeOperations):
    """Knows what the last plan refused, as the reconciler does, and need not plan again for a page."""

    def __init__(self, catalog: Catalog, fleet: Fleet, refused: Mapping[str, Refused]) -> None:
        super().__init__(catalog, fleet)
        self._refused = dict(refused)

    def refused(self) -> dict[str, Refused]:
        return self._refused


async def measure(rounds: int) -> dict[str, Any]:
    """Measure everything `rounds` times; gives medians in milliseconds."""
    taken: dict[str, list[float]] = {}
    sizes: dict[str, int] = {}
    operations = a_cluster()
    node = next(iter(operations.observed.nodes))
    model = operations.wanted.models[0].name
    pages = {
        "cluster": "/",
        "node": f"/nodes/{node}",
        "models": "/models",
        "model": f"/models/{model}",
        "replicas": "/replicas",
        "weights": "/weights",
    }
    # The first page of all also compiles the templates, which is done once in a server's life.
    await _round(operations, pages, {}, sizes)
    for _ in range(rounds):
        await _round(operations, pages, taken, sizes)
    figures: dict[str, Any] = {name: round(median(times), 1) for name, times in taken.items()}
    for name, times in taken.items():
        print(f"{name:24} median {median(times):7.1f}  all {', '.join(f'{one:.1f}' for one in times)}")
    for name, size in sizes.items():
        print(f"{name:24} {size // 1024} KiB")
    reached = figures["cluster_cpu_ms"] < GOAL_MS
    return {
        "pass": reached,
        "nodes": NODES,
        "models": MODELS,
        "cluster_kib": sizes["cluster"] // 1024,
    } | figures


def a_cluster() -> FakeOperations:
    """Make a fleet on which a catalog runs as far as it fits."""
    chance = Random(7)
    fleet = simulated_fleet(NODES, chance)
    catalog, _ = mixed_catalog(MODELS, HOPELESS_SHARE, chance, running_models(fleet))
    simulated = SimulatedFleet(fleet)
    made = simulated.plan(catalog)
    simulated.obey()
    return PlannedOperations(catalog, simulated.fleet, made.refused)


async def _round(
    operations: FakeOperations, pages: dict[str, str], taken: dict[str, list[float]], sizes: dict[str, int]
) -> None:
    # A new application has no picture of any page yet.
    transport = httpx.ASGITransport(admin_app(operations))  # type: ignore[arg-type] # Litestar names its own ASGI types
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8081") as client:
        for name, path in pages.items():
            sizes[name] = await _timed(taken, name, client, path)
        await _timed(taken, "cluster_again", client, "/")
        _give_signs_of_life(operations)
        operations.clock.advance(60)
        await _timed(taken, "cluster_after_a_second", client, "/")


async def _timed(taken: dict[str, list[float]], name: str, client: httpx.AsyncClient, path: str) -> int:
    began, began_cpu = perf_counter(), process_time()
    answer = await client.get(path)
    taken.setdefault(f"{name}_cpu_ms", []).append((process_time() - began_cpu) * 1000)
    taken.setdefault(f"{name}_clock_ms", []).append((perf_counter() - began) * 1000)
    answer.raise_for_status()
    return len(answer.content)


def _give_signs_of_life(operations: FakeOperations) -> None:
    nodes = dict(operations.observed.nodes)
    for name in list(nodes)[:BEATS]:
        memory = nodes[name].machine.memory
        free = (memory.available_bytes or 0) - 64 * 1024**2
        machine = replace(nodes[name].machine, memory=replace(memory, available_bytes=max(0, free)))
        nodes[name] = replace(nodes[name], machine=machine, heard_now=nodes[name].heard_now + 5)
    operations.observed = replace(operations.observed, nodes=nodes)
