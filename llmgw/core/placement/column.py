"""One number for each row of a table, kept in order: which rows have at least so much, and which have the least.

Sets of rows are whole numbers, row n being the bit of 2**n: one operation on them asks of a thousand nodes at once.

Beside the order there is, for every 32nd place in it, the set of all rows before that place. So a set of the first so
many rows is one of these and at most 31 rows more; and when one number changes, its row moves in the order, and each
place that it moves over has that row and one neighbour exchanged.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import compress

_STEP = 32
_FIRST_ROWS = tuple(range(4096))
_ONE = ord("1")
_BIT = bytes.maketrans(b"01", b"\0\1")


def rows_in(mask: int) -> list[int]:
    """List the rows of a set, lowest first."""
    # Reading the digits is several times quicker than shifting a number of a thousand bits once for each of them.
    digits = bin(mask)[:1:-1].encode().translate(_BIT)
    # Numbers that are there already are more than twice as quick as new ones.
    rows = _FIRST_ROWS if len(digits) <= len(_FIRST_ROWS) else range(len(digits))
    return list(compress(rows, digits))


def set_of(rows: Sequence[int]) -> int:
    """Make a set of rows that are in their order."""
    if not rows:
        return 0
    digits = bytearray(b"0") * (rows[-1] + 1)
    for row in rows:
        digits[row] = _ONE
    digits.reverse()
    return int(digits, 2)


def lowest(numbers: Sequence[float], rows: Sequence[int]) -> int:
    """Give those of some rows that have the lowest of these numbers, one for each of the rows."""
    least = min(numbers, default=0)
    return set_of([row for row, number in zip(rows, numbers, strict=True) if number == least])


class Column:
    """The numbers, by row."""

    def __init__(self, numbers: Sequence[float]) -> None:
        """Take the number of every row."""
        self._numbers = list(numbers)
        # Rows of equal numbers stand in their own order.
        self._rows = sorted(range(len(self._numbers)), key=self._numbers.__getitem__)
        self._sorted = [self._numbers[row] for row in self._rows]
        self._every = (1 << len(self._numbers)) - 1
        self._before = [0]
        for place in range(0, len(self._rows) - _STEP + 1, _STEP):
            self._before.append(self._before[-1] | self._between(place, place + _STEP))

    def at_least(self, bound: float) -> int:
        """Give the rows whose number is `bound` or more."""
        return self._every ^ self._first(bisect_left(self._sorted, bound))

    def least(self, among: int) -> int:
        """Give those rows of a set that have the lowest number in it."""
        for block in range(len(self._before)):
            after = self._before[block + 1] if block + 1 < len(self._before) else self._every
            if after & ~self._before[block] & among:
                return among & self._equals_of_first(block * _STEP, among)
        return 0

    def put(self, row: int, number: float) -> None:
        """Change the number of one row."""
        if number == self._numbers[row]:
            return
        left = self._place(self._numbers[row], row)
        del self._rows[left], self._sorted[left]
        entered = self._place(number, row)
        self._rows.insert(entered, row)
        self._sorted.insert(entered, number)
        self._numbers[row] = number
        for block in range(min(left, entered) // _STEP + 1, max(left, entered) // _STEP + 1):
            place = block * _STEP
            neighbour = self._rows[place if entered < left else place - 1]
            self._before[block] ^= 1 << row | 1 << neighbour

    def _place(self, number: float, row: int) -> int:
        """Say where a row of this number stands in the order, or is to be put."""
        start, end = bisect_left(self._sorted, number), bisect_right(self._sorted, number)
        return bisect_left(self._rows, row, start, end)

    def _first(self, count: int) -> int:
        block = count // _STEP
        return self._before[block] | self._between(block * _STEP, count)

    def _between(self, start: int, end: int) -> int:
        found = 0
        for row in self._rows[start:end]:
            found |= 1 << row
        return found

    def _equals_of_first(self, start: int, among: int) -> int:
        """Give all rows that are equal to the first row of a set at or after this place in the order."""
        place = next(place for place in range(start, len(self._rows)) if among >> self._rows[place] & 1)
        number = self._sorted[place]
        return self._first(bisect_right(self._sorted, number)) & self.at_least(number)
