"""Who takes a request."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from llmgw.core.routing.choose import choose
from llmgw.core.routing.health import HEALTHY, Health

RESTING = Health(1, 10.0)
PROBING = Health(1, 0.0, probing=True)


@dataclass(eq=False)
class Replica:
    """A candidate with numbers of a test's making."""

    name: str
    outstanding: int = 0
    capacity: int = 1
    health: Health = HEALTHY


def named(candidate: Replica | None) -> str | None:
    return None if candidate is None else candidate.name


def test_nobody_is_chosen_of_none() -> None:
    assert choose([], turn=3, now=0.0) is None


def test_the_one_with_the_fewest_requests_for_its_size_is_chosen() -> None:
    small, big = Replica("small", outstanding=1, capacity=1), Replica("big", outstanding=3, capacity=4)

    assert named(choose([small, big], turn=0, now=0.0)) == "big"


def test_equals_take_turns() -> None:
    replicas = [Replica("a"), Replica("b"), Replica("c")]

    chosen = [named(choose(replicas, turn=turn, now=0.0)) for turn in range(6)]

    assert chosen == ["a", "b", "c", "a", "b", "c"]


def test_one_that_failed_lately_or_is_being_probed_is_left_out() -> None:
    resting, probing, busy = Replica("r", health=RESTING), Replica("p", health=PROBING), Replica("b", 9)

    for turn in range(6):
        assert named(choose([resting, probing, busy], turn=turn, now=5.0)) == "b"


def test_one_whose_rest_is_over_is_asked_again() -> None:
    rested, busy = Replica("r", health=RESTING), Replica("b", outstanding=9)

    assert named(choose([busy, rested], turn=0, now=10.0)) == "r"


def test_the_last_one_is_never_left_out() -> None:
    resting, probing = Replica("r", health=RESTING), Replica("p", health=PROBING)

    assert named(choose([resting], turn=0, now=0.0)) == "r"
    assert {named(choose([resting, probing], turn=turn, now=0.0)) for turn in (0, 1)} == {"r", "p"}


@given(
    st.lists(
        st.tuples(st.integers(0, 50), st.integers(1, 8), st.sampled_from([HEALTHY, RESTING, PROBING])),
        min_size=1,
        max_size=8,
    ),
    st.integers(0, 1000),
)
def test_somebody_is_always_chosen_and_nobody_fit_is_less_busy(
    numbers: list[tuple[int, int, Health]], turn: int
) -> None:
    replicas = [Replica(str(i), *each) for i, each in enumerate(numbers)]

    chosen = choose(replicas, turn=turn, now=5.0)

    assert chosen is not None
    fit = [replica for replica in replicas if replica.health is HEALTHY] or replicas
    assert chosen in fit
    assert all(chosen.outstanding / chosen.capacity <= r.outstanding / r.capacity for r in fit)
