import pytest
from fakes.catalogs import a_model, a_profile
from fakes.fleets import a_fleet
from fakes.nodes import a_shard, an_introduction

from llmgw.core.fleet.orders import RollState, begin_roll
from llmgw.core.fleet.shards import Phase

MODEL = a_model(replicas=3)
CURRENT = a_profile().fingerprint()
BACKOFF = "started again by the backoff, with the profile of now"


@pytest.mark.parametrize(
    ("phases", "every", "why"),
    [
        ((), True, "it has none"),
        ((), False, "it has none"),
        ((Phase.READY,), False, "none that runs is stale (--all replaces every one)"),
        ((Phase.FAILED,), True, f"none runs; 1 has failed and is {BACKOFF}"),
        ((Phase.FAILED, Phase.FAILED), False, f"none runs; 2 have failed and are {BACKOFF}"),
        (
            (Phase.READY, Phase.FAILED),
            False,
            f"none that runs is stale (--all replaces every one); 1 has failed and is {BACKOFF}",
        ),
    ],
)
def test_a_roll_that_has_nothing_to_replace_says_why(
    phases: tuple[Phase, ...], every: bool, why: str
) -> None:
    shards = [a_shard(ordinal=i, phase=phase, fingerprint=CURRENT) for i, phase in enumerate(phases)]

    roll = begin_roll(MODEL, a_fleet(an_introduction(shards=tuple(shards))), every=every)

    assert (roll.state, roll.targets, roll.left) == (RollState.DONE, {}, 0)
    assert roll.why == why


def test_a_roll_that_has_something_to_replace_begins() -> None:
    shards = [a_shard(ordinal=0, fingerprint="old"), a_shard(ordinal=1, phase=Phase.FAILED)]

    roll = begin_roll(MODEL, a_fleet(an_introduction(shards=tuple(shards))), every=False)

    assert (roll.state, set(roll.targets), roll.why) == (RollState.ROLLING, {"gemma.0"}, None)
