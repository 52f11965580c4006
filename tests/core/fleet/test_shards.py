import pytest

from llmgw.core.fleet.shards import LIVE, TRANSITIONS, Phase, may_follow

ARROWS = [(before, after) for before, following in TRANSITIONS.items() for after in following]


def test_every_phase_has_a_row() -> None:
    assert set(TRANSITIONS) == set(Phase)


@pytest.mark.parametrize(("before", "after"), ARROWS)
def test_an_arrow_may_be_reported(before: Phase, after: Phase) -> None:
    assert may_follow(before, after)


@pytest.mark.parametrize("before", Phase)
def test_what_is_no_arrow_may_not_be_reported(before: Phase) -> None:
    for after in set(Phase) - TRANSITIONS[before]:
        assert not may_follow(before, after)


def test_every_phase_but_the_end_leads_to_stopped() -> None:
    for phase in set(Phase) - {Phase.STOPPED}:
        assert may_follow(phase, Phase.STOPPED)
    assert not TRANSITIONS[Phase.STOPPED]


def test_what_has_ended_holds_no_memory() -> None:
    assert set(Phase) - LIVE == {Phase.STOPPED, Phase.FAILED}
