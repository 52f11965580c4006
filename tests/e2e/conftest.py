"""Houses for the end-to-end tests: one that a module shares, and fresh ones."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from real.house import House


@pytest.fixture
def make_house(tmp_path: Path) -> Iterator[Callable[..., House]]:
    houses: list[House] = []

    def make(**options: object) -> House:
        root = tmp_path / f"house-{len(houses)}"
        root.mkdir()
        houses.append(House(root, **options))  # type: ignore[arg-type]
        return houses[-1]

    yield make
    for house in houses:
        house.close()
