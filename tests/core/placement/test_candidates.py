"""Nodes that come to fit a model which fitted nowhere."""

import pytest
from fakes.catalogs import a_model, a_profile
from fakes.fleets import AT, a_fleet
from fakes.nodes import an_introduction
from msgspec.structs import replace

from llmgw.core.fleet.beat import Beat
from llmgw.core.fleet.hardware import Filesystem, Gpu, Memory
from llmgw.core.fleet.snapshot import Node, NodeState, heard
from llmgw.core.placement.candidates import Qualified, has_shrunk, may_qualify, qualified
from llmgw.core.placement.place import demands_of
from llmgw.core.units import GIB, MIB

MODELS = (
    a_model("small", profiles=(a_profile(min_memory_gb=2),)),
    a_model("large", profiles=(a_profile(min_memory_gb=8), a_profile(name="tight", min_memory_gb=6))),
    a_model("gpu", profiles=(a_profile(gpus=1, gpu_class="h100", min_gpu_memory_gb=40),)),
)
ASKED = [(model.name, demand) for model in MODELS for _, demand in demands_of(model)]
H100 = Gpu(uuid="GPU-1", gpu_class="h100-80gb-hbm3", total_bytes=80 * GIB, free_bytes=79 * GIB)


def a_node(free_gb: float = 3, **said: object) -> Node:
    beat = Beat(memory=memory(free_gb), gpus=(), **said)  # type: ignore[arg-type] # a test names fields of Beat
    fleet = a_fleet(an_introduction(free_gb=free_gb))
    return heard(fleet, "n1", connection=1, now=1.0, at=AT, said=beat).nodes["n1"]


def memory(free_gb: float, total_gb: float | None = None) -> Memory:
    total = free_gb if total_gb is None else total_gb
    return Memory(total_bytes=int(total * GIB), available_bytes=int(free_gb * GIB))


def with_(node: Node, **machine: object) -> Node:
    return replace(node, machine=replace(node.machine, **machine))


def test_memory_that_grew_makes_a_candidate_and_is_told_from_what_to_what() -> None:
    before, after = a_node(3), a_node(9)

    found = qualified(ASKED, before, after)

    assert found == (Qualified("large", "memory 3.0 GiB -> 9.0 GiB"),)


def test_memory_that_came_back_is_told_as_free_memory() -> None:
    before = with_(a_node(), memory=memory(3, 16))
    after = with_(a_node(), memory=memory(9, 16))

    assert qualified(ASKED, before, after) == (Qualified("large", "free memory 3.0 GiB -> 9.0 GiB"),)


def test_what_still_does_not_fit_and_what_fitted_before_are_not_told() -> None:
    assert qualified(ASKED, a_node(3), a_node(5)) == ()
    assert qualified(ASKED, a_node(9), a_node(12)) == ()
    assert qualified(ASKED, a_node(9), a_node(3)) == ()


def test_a_gpu_that_appears_comes_back_or_is_given_back_makes_a_candidate() -> None:
    none, full = a_node(), with_(a_node(), gpus=(replace(H100, free_bytes=GIB),))
    lost, good = with_(a_node(), gpus=(replace(H100, problem="GPU is lost"),)), with_(a_node(), gpus=(H100,))

    said = [qualified(ASKED, before, good) for before in (none, lost, full)]

    assert said == [
        (Qualified("gpu", "GPUs that can be used 0 -> 1"),),
        (Qualified("gpu", "GPUs that can be used 0 -> 1"),),
        (Qualified("gpu", "free GPU memory 1.0 GiB -> 79.0 GiB"),),
    ]


def test_what_no_number_tells_is_told_as_it_was() -> None:
    before = replace(a_node(9), state=NodeState.CORDONED)

    found = qualified(ASKED, before, a_node(9))

    assert [one.model for one in found] == ["small", "large"]
    assert found[0].text.startswith("state: it had cordoned since ")


def test_little_news_is_not_worth_a_look_and_its_sum_is() -> None:
    before = a_node(3)
    little, more = (with_(before, memory=memory(3 + mib * MIB / GIB)) for mib in (63, 65))

    assert not may_qualify(before, little)
    assert may_qualify(before, more)
    assert not may_qualify(more, before)
    assert has_shrunk(more, before)
    assert not has_shrunk(before, more)


@pytest.mark.parametrize(
    "change",
    [
        {"engines": ()},
        {"pool": "big"},
        {"labels": {"rack": "b2"}},
        {"weights": ()},
        {"state": NodeState.CORDONED},
    ],
)
def test_whatever_else_a_shard_may_ask_for_is_worth_a_look(change: dict[str, object]) -> None:
    before = a_node()

    assert may_qualify(before, replace(before, **change))


def test_room_on_a_disk_and_on_a_gpu_is_worth_a_look() -> None:
    before = with_(a_node(), filesystems=(Filesystem(mount="/", free_bytes=GIB),))
    other = with_(before, filesystems=(Filesystem(mount="/", free_bytes=2 * GIB),))

    assert may_qualify(before, other)
    assert may_qualify(before, with_(before, gpus=(H100,)))
    assert not may_qualify(before, with_(before, gpus=(replace(H100, problem="GPU is lost"),)))
