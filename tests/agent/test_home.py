"""How long an engine may take to start."""

from llmgw.agent.home import Timings
from llmgw.core.units import GIB


def test_starting_may_take_five_minutes_and_twenty_seconds_for_each_gib_of_weights() -> None:
    assert Timings().starting_limit_s(0) == 300
    assert Timings().starting_limit_s(70 * GIB) == 300 + 20 * 70
