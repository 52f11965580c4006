from typing import Annotated, Any

import msgspec
import pytest

from llmgw.core.errors import Problem
from llmgw.core.shape import Size, Time, nearest, read_struct


class Inner(msgspec.Struct, frozen=True, kw_only=True):
    depth: int
    label: str = "none"


class Outer(msgspec.Struct, frozen=True, kw_only=True):
    size: Size = 1
    time: Time = 2.0
    often: Time | None = None
    ratio: float = 0.5
    flag: bool = False
    inner: Inner | None = None
    many: tuple[Inner, ...] = ()
    words: list[str] = msgspec.field(default_factory=list)
    by_name: dict[str, Inner] = {}
    either: int | str = 0
    anything: Any = None
    bounded: Annotated[int, "a remark", msgspec.Meta(ge=1)] = 1


def _problems(data: object) -> dict[str, str]:
    value, problems = read_struct(data, Outer)
    assert (value is None) == bool(problems)
    return {p.where(): p.message for p in problems}


def _value(data: object) -> Outer:
    value, problems = read_struct(data, Outer)
    assert problems == []
    assert value is not None
    return value


def test_nothing_at_all_takes_every_default() -> None:
    assert _value(None) == _value({}) == Outer()


def test_nothing_is_not_enough_where_a_key_is_required() -> None:
    assert read_struct(None, Inner)[1] == [Problem((), "wanted a mapping, found nothing")]


@pytest.mark.parametrize(
    ("data", "read"),
    [
        ({"size": "24g"}, Outer(size=24 * 2**30)),
        ({"size": 512}, Outer(size=512)),
        ({"size": 1.5}, Outer(size=1)),
        ({"time": "5m"}, Outer(time=300.0)),
        ({"time": 0}, Outer(time=0.0)),
        ({"often": "1s"}, Outer(often=1.0)),
        ({"often": None}, Outer()),
        ({"ratio": 2}, Outer(ratio=2.0)),
        ({"inner": {"depth": 1}}, Outer(inner=Inner(depth=1))),
        ({"inner": None}, Outer()),
        ({"many": [{"depth": 1}]}, Outer(many=(Inner(depth=1),))),
        ({"words": ["a", "b"]}, Outer(words=["a", "b"])),
        ({"by_name": {5: {"depth": 1}}}, Outer(by_name={"5": Inner(depth=1)})),
        ({"either": "x"}, Outer(either="x")),
        ({"bounded": 5}, Outer(bounded=5)),
        ({"anything": [1, {"a": 2}]}, Outer(anything=[1, {"a": 2}])),
    ],
)
def test_what_is_right_is_read(data: object, read: Outer) -> None:
    assert _value(data) == read


@pytest.mark.parametrize(
    ("data", "where", "said"),
    [
        ([], "", "wanted a mapping, found a list"),
        ({"siez": 1}, "siez", "unknown key 'siez'; did you mean 'size'?"),
        ({"zzzzzz": 1}, "zzzzzz", "unknown key 'zzzzzz'; known: anything, bounded, by_name"),
        ({7: 1}, "7", "unknown key '7'"),
        ({"size": "big"}, "size", "wanted a size such as 512m or 24g, found 'big'"),
        ({"size": -1}, "size", "wanted a size"),
        ({"size": True}, "size", "wanted a size"),
        ({"size": float("inf")}, "size", "wanted a size"),
        ({"size": float("nan")}, "size", "wanted a size"),
        ({"size": 10**30}, "size", "wanted a size"),
        ({"time": 5}, "time", "wanted a time such as 15s, 5m or 24h, found 5"),
        ({"often": []}, "often", "wanted a time such as 15s, 5m or 24h, found a list"),
        ({"ratio": "half"}, "ratio", "wanted a number, found 'half'"),
        ({"flag": "yes"}, "flag", "wanted true or false, found 'yes'"),
        ({"inner": 5}, "inner", "wanted a mapping, found 5"),
        ({"inner": {}}, "inner", "'depth' is missing"),
        ({"inner": {"depth": 1.5}}, "inner.depth", "wanted a whole number, found 1.5"),
        ({"inner": {"depth": 10**30}}, "inner.depth", "wanted a number of at most 18 digits"),
        ({"ratio": 10**400}, "ratio", "wanted a number of at most 18 digits"),
        ({"bounded": 0}, "bounded", "Expected `int` >= 1"),
        ({"inner": {"depth": 1, "label": None}}, "inner.label", "wanted text, found nothing"),
        ({"inner": {"depth": 1, "label": "\ud800"}}, "inner.label", "half a character"),
        ({"many": [{"depth": 1}, {"depth": "x"}]}, "many[1].depth", "wanted a whole number, found 'x'"),
        ({"many": "x"}, "many", "wanted a list, found 'x'"),
        ({"by_name": []}, "by_name", "wanted a mapping, found a list"),
        ({"by_name": {"a": {"depht": 1}}}, "by_name.a.depht", "did you mean 'depth'?"),
        ({"either": 1.5}, "either", "Expected `int | str`"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(data: object, where: str, said: str) -> None:
    assert said in _problems(data)[where]


def test_all_that_is_wrong_is_told_at_once() -> None:
    data = {"size": "x", "inner": {"depth": "y", "lable": "z"}, "many": [{}]}

    assert set(_problems(data)) == {"size", "inner.depth", "inner.lable", "many[0]"}


def test_the_nearest_known_word_is_suggested_or_else_all_are_listed() -> None:
    assert nearest("replicsa", ["name", "replicas"]) == "did you mean 'replicas'?"
    assert nearest("zzz", ["b", "a"]) == "known: a, b"
