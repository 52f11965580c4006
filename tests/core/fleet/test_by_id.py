import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.core.fleet.by_id import ById

KEYS = st.text("abcdefgh", min_size=1, max_size=2)
CHANGES = st.lists(st.tuples(st.dictionaries(KEYS, st.integers(), max_size=3), st.booleans()), max_size=60)


@given(st.dictionaries(KEYS, st.integers()), CHANGES)
def test_it_reads_as_a_dict_that_was_changed_in_the_same_way(
    first: dict[str, int], changes: list[tuple[dict[str, int], bool]]
) -> None:
    plain, by_id = dict(first), ById(first)
    for change, is_read in changes:
        plain = plain | change
        by_id = by_id | change
        if is_read:
            assert list(by_id.items()) == list(plain.items())

    assert list(by_id.items()) == list(plain.items())
    assert (list(by_id), list(by_id.values()), len(by_id)) == (list(plain), list(plain.values()), len(plain))
    assert by_id == plain
    assert by_id == ById(plain)
    assert by_id.keys() - {"a"} == plain.keys() - {"a"}
    assert all((by_id.get(k), k in by_id) == (plain.get(k), k in plain) for k in ("a", "bc", "x"))
    assert bool(by_id) == bool(plain)


@given(st.dictionaries(KEYS, st.integers()), CHANGES)
def test_a_change_leaves_every_earlier_map_as_it_was(
    first: dict[str, int], changes: list[tuple[dict[str, int], bool]]
) -> None:
    given_map = dict(first)
    maps, copies = [ById(given_map)], [dict(first)]
    for change, is_read in changes:
        maps.append(maps[-1] | change)
        copies.append(copies[-1] | change)
        if is_read:
            len(maps[-1])
    given_map["z"] = 0

    assert [dict(one) for one in maps] == copies


def test_a_key_that_is_not_there_is_an_error_and_its_default_is_given() -> None:
    by_id = ById({"a": 1}) | {"b": 2}

    assert by_id["b"] == 2
    assert by_id["a"] == 1
    assert by_id.get("c", 3) == 3
    with pytest.raises(KeyError, match="'c'"):
        by_id["c"]


def test_one_change_of_a_large_map_copies_little_of_it() -> None:
    by_id = ById({f"n{number}": number for number in range(10_000)})

    for number in range(1000):
        by_id = by_id | {f"n{number}": 0}

    assert len(by_id._above) <= 16 + 100
    assert sum(by_id.values()) == sum(range(1000, 10_000))
