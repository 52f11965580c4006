"""Every number that a node says has bounds, and what is outside of them becomes unknown."""

import math
import typing
from types import UnionType
from typing import Any

import msgspec
import pytest
from fakes.machines import a_gpu
from msgspec.structs import fields

from llmgw.core.fleet.bounds import NUMBERS, WORDS, all_believed, are_believed, believed, each
from llmgw.core.fleet.hardware import GpuProcess, Memory
from llmgw.core.fleet.shards import ShardState
from llmgw.wire.frames import Heartbeat, Register

# Looked at with the shard as a whole: one that has not these right is no shard.
ELSEWHERE = {(ShardState, "ordinal"), (ShardState, "rank")}
NONSENSE = [-1, -(2**63), 2**63, 2**64 - 1, math.nan, math.inf, -math.inf, 1e308]


def parts_of(kind: Any) -> set[Any]:
    """List the types that a type is made of."""
    if typing.get_origin(kind) in (typing.Union, UnionType, tuple, dict):
        return {part for one in typing.get_args(kind) for part in parts_of(one)}
    return {kind}


def structs_in(root: type[msgspec.Struct]) -> set[type[msgspec.Struct]]:
    found, todo = {root}, [root]
    while todo:
        for kind in typing.get_type_hints(todo.pop()).values():
            new = {p for p in parts_of(kind) if isinstance(p, type) and issubclass(p, msgspec.Struct)} - found
            found |= new
            todo += new
    return found


def test_every_number_that_a_node_says_of_itself_has_bounds() -> None:
    said = structs_in(Register) | structs_in(Heartbeat)
    bounded = {(kind, bound.field) for kind, bounds in NUMBERS.items() for bound in bounds}

    numbers = {
        (kind, name)
        for kind in said
        for name, of in typing.get_type_hints(kind).items()
        if parts_of(of) & {int, float}
        and typing.get_origin(of) is not tuple
        and kind.__name__ != "Generation"
    }

    unbounded = {one for one in numbers - bounded - ELSEWHERE if one[0] is not Register}
    assert {(kind.__name__, name) for kind, name in unbounded} == {("ModelShape", "kv_heads")}


@pytest.mark.parametrize("number", NONSENSE)
def test_what_lies_outside_its_bounds_becomes_what_is_said_instead(number: float) -> None:
    for kind, bounds in NUMBERS.items():
        if not bounds:
            continue
        given = {
            field.name: number for field in fields(kind) if field.name in {bound.field for bound in bounds}
        }
        required = {field.name: "x" for field in fields(kind) if field.required and field.name not in given}

        mended = believed(kind(**required | given))

        assert not are_believed((kind(**required | given),))
        for bound in bounds:
            value = getattr(mended, bound.field)
            assert value is None or value == bound.instead or bound.least <= value <= bound.most


def test_what_can_be_true_stays_the_same_value() -> None:
    gpu = a_gpu(utilization=1.0, ecc_errors=0, foreign=(GpuProcess(pid=7, held_bytes=0),))

    assert believed(gpu) is gpu


def test_words_longer_than_anybody_reads_are_cut() -> None:
    for kind, names in WORDS.items():
        required = {field.name: 1 if field.type is int else "x" for field in fields(kind) if field.required}

        mended = believed(kind(**required | dict.fromkeys(names, "w" * 10_000)))

        assert all(len(getattr(mended, name)) < 4200 for name in names)


def test_a_tuple_of_which_nothing_changes_is_the_same_tuple() -> None:
    said = (Memory(total_bytes=1), Memory(total_bytes=-1))

    assert each(said, lambda one: one) is said
    assert each(said, believed) == all_believed(said) == (said[0], Memory())
    assert all_believed(said[:1] * 2) == said[:1] * 2
    assert each(said, lambda one: one if one.total_bytes == 1 else None) == said[:1]
