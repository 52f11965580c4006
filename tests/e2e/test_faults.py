"""The short form of every fault of bench/faults: nothing lost, nothing doubled, nothing left behind, nothing wrong."""

import sys
from pathlib import Path

import pytest
from real.requirement import missing

sys.path.append(str(Path(__file__).parents[2] / "bench"))

from faults.plays import FAULTS
from faults.tally import Missing, Tally

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_costs_nothing(name: str, tmp_path: Path) -> None:
    tally = Tally(name, rounds=1, short=True)

    try:
        FAULTS[name](tally, tmp_path)
    except Missing as reason:
        missing(str(reason))

    assert tally.problems == []
