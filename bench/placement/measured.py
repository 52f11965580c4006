"""Measure plans over a simulated fleet, and check each: what fits is placed, all else is refused with its rules.

The first plan of the process is not counted, for a server makes them all day. A plan does nothing but reckon, so what
counts is the time of the processor that it takes: on a clock it takes as long where nobody else wants the processor.
The clock's time is printed beside it.
"""

from collections.abc import Callable
from functools import partial
from random import Random
from statistics import median
from time import perf_counter, process_time
from typing import Any

from llmgw.core.fleet.catalog import Catalog
from llmgw.core.fleet.snapshot import Fleet
from llmgw.core.placement.answers import answers
from llmgw.core.placement.explain import explain
from llmgw.core.placement.place import demands_of
from llmgw.core.placement.rooms import rooms_of
from llmgw.core.reconcile import Plan, Start, plan
from placement.machines import AT, simulated_fleet
from placement.models import mass_catalog, mixed_catalog, running_models

NODES, MODELS, HOPELESS_SHARE = 1000, 200, 0.3
MASS_MODELS, MASS_REPLICAS = 10, 60
PLAN_GOAL_MS, VERDICTS_GOAL_MS = 100.0, 20.0


def measure(rounds: int) -> dict[str, Any]:
    """Measure everything `rounds` times, each over another fleet, interleaved; gives medians in milliseconds."""
    taken: dict[str, list[float]] = {}
    problems: list[str] = []
    for number in range(-1, rounds):
        chance = Random(number)
        fleet = simulated_fleet(NODES, chance)
        running = running_models(fleet)
        catalog, hopeless = mixed_catalog(MODELS, HOPELESS_SHARE, chance, running)
        if number < 0:
            _plan(catalog, fleet)
            continue
        made = _timed(taken, "plan", partial(_plan, catalog, fleet))
        problems += _problems(made, catalog, hopeless)
        mass = mass_catalog(MASS_MODELS, MASS_REPLICAS, running)
        _timed(taken, "mass_plan", partial(_plan, mass, fleet))
        _time_verdicts(taken, catalog, fleet)
    figures: dict[str, Any] = {name: round(median(times), 1) for name, times in taken.items()}
    for name, times in taken.items():
        print(f"{name:24} median {median(times):7.1f}  all {', '.join(f'{one:.1f}' for one in times)}")
    for problem in problems:
        print("PROBLEM", problem)
    reached = figures["plan_cpu_ms"] < PLAN_GOAL_MS and figures["verdicts_cpu_ms"] < VERDICTS_GOAL_MS
    return {
        "pass": reached and not problems,
        "nodes": NODES,
        "models": MODELS,
        "problems": len(problems),
    } | figures


def _timed(taken: dict[str, list[float]], name: str, work: Callable[[], Any]) -> Any:
    began, began_cpu = perf_counter(), process_time()
    result = work()
    taken.setdefault(f"{name}_cpu_ms", []).append((process_time() - began_cpu) * 1000)
    taken.setdefault(f"{name}_clock_ms", []).append((perf_counter() - began) * 1000)
    return result


def _plan(catalog: Catalog, fleet: Fleet) -> Plan:
    return plan(catalog, fleet, epoch=2, counter=0, now=0.0)


def _time_verdicts(taken: dict[str, list[float]], catalog: Catalog, fleet: Fleet) -> None:
    # The first that asks for GPUs has the longest verdicts.
    model = next(model for model in catalog.models if model.profiles[0].gpus)
    rooms = _timed(taken, "rooms", lambda: rooms_of(fleet))
    ((profile, demand),) = demands_of(model)
    _timed(taken, "verdicts", lambda: answers(profile, demand, rooms))
    _timed(taken, "explain", lambda: explain(model, fleet, now=0.0, at=AT))


def _problems(made: Plan, catalog: Catalog, hopeless: frozenset[str]) -> list[str]:
    """Say what is wrong with a plan; nothing, when it is as it should be."""
    placed = {action.spec.model for action in made.actions if isinstance(action, Start)}
    every = {model.name for model in catalog.models if model.name.startswith("model-")}
    found = [f"{name} was placed, and fits nowhere" for name in sorted(placed & hopeless)]
    found += [f"{name} was refused, and fits" for name in sorted(made.refused.keys() - hopeless)]
    found += [
        f"{name} was neither placed nor refused" for name in sorted(every - placed - made.refused.keys())
    ]
    for name, refused in made.refused.items():
        if sum(refused.by_rule.values()) != refused.count or not refused.verdicts:
            found.append(f"{name} was refused without the rule for some nodes: {refused.by_rule}")
    return found
