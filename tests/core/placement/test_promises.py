"""What plans promise, by properties: nothing twice, nothing that is not there, and no refusal without its rules."""

from collections import Counter

from fakes.catalogs import a_catalog, a_model, a_profile
from fakes.fleets import a_fleet
from fakes.ledger import Ledger
from fakes.machines import a_disk, a_gpu
from fakes.nodes import an_introduction
from fakes.placement_worlds import worlds
from hypothesis import given, settings
from msgspec.structs import replace

from llmgw.core.fleet.catalog import Model
from llmgw.core.fleet.hardware import Machine
from llmgw.core.fleet.shards import Claim
from llmgw.core.fleet.snapshot import Fleet
from llmgw.core.placement.need import Need
from llmgw.core.reconcile import Plan, Start, plan
from llmgw.core.units import GIB


def _plan(fleet: Fleet, models: list[Model], needs: dict[str, Need]) -> tuple[Plan, list[Start]]:
    # What runs already belongs to models of the catalog, so that nothing is stopped.
    old = sorted({shard.model for node in fleet.nodes.values() for shard in node.shards.values()})
    running = [a_model(name, replicas=9, profiles=(a_profile(node_selector={"no": "node"}),)) for name in old]
    made = plan(a_catalog(*running, *models), fleet, epoch=2, counter=0, now=0.0, needs=needs)
    return made, [action for action in made.actions if isinstance(action, Start)]


@settings(max_examples=120, deadline=None)
@given(worlds())
def test_no_plan_promises_more_than_there_is(world: tuple[Fleet, list[Model], dict[str, Need]]) -> None:
    fleet, models, needs = world

    _, starts = _plan(fleet, models, needs)

    assert Ledger(fleet, starts, needs).overdrawn() == []


@settings(max_examples=80, deadline=None)
@given(worlds())
def test_no_plan_places_twice_and_every_replica_is_placed_whole_or_refused_with_its_rules(
    world: tuple[Fleet, list[Model], dict[str, Need]],
) -> None:
    fleet, models, needs = world

    made, starts = _plan(fleet, models, needs)

    assert all(count == 1 for count in Counter(start.spec.shard for start in starts).values())
    for model in models:
        replicas: dict[str, list[Start]] = {}
        for start in starts:
            if start.spec.model == model.name:
                replicas.setdefault(start.spec.replica, []).append(start)
        assert len(replicas) == model.replicas or model.name in made.refused
        for ranks in replicas.values():
            _check_whole(fleet, ranks)
        if model.name in made.refused:
            refused = made.refused[model.name]
            assert sum(refused.by_rule.values()) == refused.count == len(fleet.nodes) * len(model.profiles)
            assert all(refused.by_rule.values())
            assert bool(refused.verdicts) == bool(fleet.nodes)


def _check_whole(fleet: Fleet, ranks: list[Start]) -> None:
    profile = ranks[0].spec.profile
    assert [start.spec.rank for start in ranks] == list(range(profile.nodes))
    assert len({start.node for start in ranks}) == profile.nodes
    if profile.fabric is not None and profile.nodes > 1:
        names = [
            {fabric.name for fabric in fleet.nodes[start.node].machine.fabrics or () if fabric.attached}
            for start in ranks
        ]
        shared = set.intersection(*names)
        assert shared if profile.fabric == "any" else profile.fabric in shared


def _start(node: str, claim: Claim) -> Start:
    fleet = a_fleet(an_introduction(node))
    _, (start,) = _plan(fleet, [a_model()], {})
    return Start(node=node, because="", spec=replace(start.spec, claim=claim))


def test_the_ledger_of_these_tests_notices_what_is_overdrawn() -> None:
    machine = Machine(
        memory=an_introduction(free_gb=8).machine.memory, gpus=(a_gpu(),), filesystems=(a_disk(5),)
    )
    fleet = a_fleet(an_introduction(machine=machine))
    whole = Claim(gpus=("GPU-0",))

    assert Ledger(fleet, [_start("n1", Claim(memory_bytes=9 * GIB))], {}).overdrawn() == [
        "n1: free memory",
        "n1: memory in all",
    ]
    assert Ledger(fleet, [_start("n1", whole), _start("n1", whole)], {}).overdrawn() == [
        "GPU-0: it was taken whole, and others are on it"
    ]
    assert Ledger(fleet, [_start("n1", Claim(disk_bytes=6 * GIB, fetches="x"))], {}).overdrawn() == [
        "n1 /dev/nvme0n1p2: disk"
    ]
