"""One number for each row of a table, kept in order: which rows have at least so much, and which have the least.

Sets of rows are whole numbers, row n being the bit of 2**n: one operation on them asks of a thousand nodes at once.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence

_BIT = bytes.maketrans(b"01", b"\0\1")


def rows_in(mask: int) -> Sequence[int]:
    """List the rows of a set, lowest first."""
    # Reading the digits is several times quicker than shifting a number of a thousand bits once for each of them.
    digits = bin(mask)[:1:-1].encode().translate(_BIT)
    return [row for row, is_in in enumerate(digits) if is_in]


def set_of(rows: Iterable[int]) -> int:
    """Make a set of rows."""
    mask = 0
    for row in rows:
        mask |= 1 << row
    return mask


class Column:
    """The numbers, by row."""

    def __init__(self, values: Sequence[float]) -> None:
        """Take the number of every row."""
        self._values = list(values)
        self._ordered = sorted(zip(self._values, range(len(self._values)), strict=True))
        self._every = (1 << len(self._values)) - 1

    def at_least(self, bound: float) -> int:
        """Give the rows whose number is `bound` or more."""
        start = bisect_left(self._ordered, (bound,))
        if start * 2 < len(self._ordered):
            return self._every ^ set_of(row for _, row in self._ordered[:start])
        return set_of(row for _, row in self._ordered[start:])

    def least(self, among: int) -> int:
        """Give those rows of a set that have the lowest number in it."""
        found, lowest = 0, None
        for value, row in self._ordered:
            if lowest is not None and value > lowest:
                break
            if among >> row & 1:
                found, lowest = found | 1 << row, value
        return found

    def put(self, row: int, value: float) -> None:
        """Change the number of one row."""
        before = self._values[row]
        if value != before:
            del self._ordered[bisect_left(self._ordered, (before, row))]
            insort(self._ordered, (value, row))
            self._values[row] = value
