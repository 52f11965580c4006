from math import inf

from hypothesis import given, settings
from hypothesis import strategies as st

from llmgw.core.placement.column import Column, lowest, rows_in, set_of

NUMBERS = st.sampled_from([-1, 0, 1, 2, 2.5, 7, inf])
COLUMNS = st.integers(0, 150).flatmap(lambda size: st.lists(NUMBERS, min_size=size, max_size=size))


def _rows(mask: int) -> set[int]:
    return {row for row in range(mask.bit_length()) if mask >> row & 1}


def test_a_set_of_rows_is_listed_as_it_was_made() -> None:
    assert rows_in(set_of([0, 3, 70])) == [0, 3, 70]
    assert set_of([0, 3]) == 0b1001
    assert rows_in(1 << 5000 | 1 << 4095 | 1) == [0, 4095, 5000]
    assert rows_in(set_of([])) == []


def test_the_lowest_of_some_rows_are_all_that_are_equal() -> None:
    assert rows_in(lowest([5, 2, 9, 2], [1, 4, 6, 8])) == [4, 8]
    assert lowest([], []) == 0


@settings(max_examples=100, deadline=None)
@given(COLUMNS, st.lists(st.tuples(st.integers(0, 149), NUMBERS), max_size=20), NUMBERS, st.randoms())
def test_a_column_tells_what_looking_at_each_number_tells_however_often_they_change(
    numbers: list[float], changes: list[tuple[int, float]], bound: float, chance: object
) -> None:
    column = Column(numbers)
    numbers = list(numbers)

    for row, number in changes:
        if row < len(numbers):
            column.put(row, number)
            numbers[row] = number

    among = {row for row in range(len(numbers)) if chance.random() < 0.4}  # type: ignore[attr-defined]
    least = min((numbers[row] for row in among), default=None)
    assert _rows(column.at_least(bound)) == {row for row, number in enumerate(numbers) if number >= bound}
    assert _rows(column.least(set_of(sorted(among)))) == {row for row in among if numbers[row] == least}
