"""A map that is a value and cheap to change: what is new lies over what was, so that one change copies little.

Guarantees:
1. A map never changes; `map | {key: value}` is another one, and either may be kept.
2. A change copies about the square root of what the map holds, not all of it. Five thousand nodes that each say
   something every few seconds would otherwise cost more in copies than in all else.
3. It reads as a dict does: a key that is set anew keeps its place.

```
_below: a dict that many maps share and none writes   {a: 1, b: 2, c: 3}
_above: what this map says differently or besides     {b: 5}
```
"""

from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from math import isqrt
from typing import Any, TypeVar

V = TypeVar("V")

LEAST_ABOVE = 16


class ById(Mapping[str, V]):
    """Values by the id of what they are about."""

    __slots__ = ("_above", "_below", "_whole")

    def __init__(self, given: Mapping[str, V] | None = None) -> None:
        self._below: Mapping[str, V] = {} if given is None else dict(given)
        self._above: dict[str, V] = {}
        self._whole: Mapping[str, V] | None = self._below

    @staticmethod
    def of(given: Mapping[str, V]) -> "ById[V]":
        """Give the same map if it is one of these, else one that holds the same."""
        return given if isinstance(given, ById) else ById(given)

    def __or__(self, other: Mapping[str, V]) -> "ById[V]":
        """Make the map in which `other` says what it says, and this one all else."""
        made: ById[V] = ById.__new__(ById)
        # Whoever read this map as a whole has paid for a dict that the next may lie on.
        below = self._below if self._whole is None else self._whole
        above = {**self._above, **other} if self._whole is None else dict(other)
        if len(above) > LEAST_ABOVE + isqrt(len(below)):
            below, above = {**below, **above}, {}
        made._below, made._above = below, above
        made._whole = None if above else below
        return made

    def __getitem__(self, key: str) -> V:
        above = self._above
        return above[key] if key in above else self._below[key]

    def __contains__(self, key: object) -> bool:
        return key in self._above or key in self._below

    def get(self, key: str, default: Any = None) -> Any:
        """Look a key up; `default` when nothing is said of it."""
        above = self._above
        return above[key] if key in above else self._below.get(key, default)

    def __len__(self) -> int:
        return len(self._as_dict())

    def __iter__(self) -> Iterator[str]:
        return iter(self._as_dict())

    def keys(self) -> KeysView[str]:
        """List the keys."""
        return self._as_dict().keys()

    def values(self) -> ValuesView[V]:
        """List the values."""
        return self._as_dict().values()

    def items(self) -> ItemsView[str, V]:
        """List keys and values."""
        return self._as_dict().items()

    def __repr__(self) -> str:
        return f"ById({self._as_dict()!r})"

    def _as_dict(self) -> Mapping[str, V]:
        if self._whole is None:
            self._whole = {**self._below, **self._above}
        return self._whole
