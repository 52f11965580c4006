from fakes.catalogs import a_catalog, a_model, a_profile
from fakes.clock import FakeClock
from fakes.nodes import an_introduction
from fakes.removals import FakeRemovals

from llmgw.control.desired import Desired
from llmgw.control.fleet import ObservedFleet
from llmgw.control.pairing import NoAnswer
from llmgw.control.weights import Weights
from llmgw.core.fleet.weights import Holding, cache_name_of
from llmgw.wire.frames import WeightsRemoved

WANTED, OTHER = "hf://org/repo/wanted.gguf", "hf://org/repo/other.gguf"
NAME = cache_name_of(OTHER) or ""


class _House:
    """The weights of two nodes, of which the catalog wants one."""

    def __init__(self) -> None:
        self.clock, self.agents = FakeClock(), FakeRemovals()
        self.desired = Desired(a_catalog(a_model(profiles=(a_profile(weights=WANTED),))), {})
        self.fleet = ObservedFleet(self.clock)
        self.weights = Weights(self.agents, self.desired, self.fleet)
        held = tuple(
            Holding(path=f"/cache/{name}", cache_name=name, size_bytes=10)
            for name in (cache_name_of(WANTED), NAME)
        )
        for number, node in enumerate(("n1", "n2"), start=1):
            self.fleet.register(an_introduction(node, weights=held), connection=number, on_the_way={})


def test_agents_are_told_what_to_look_for_at_once_and_after_each_change() -> None:
    house = _House()

    house.desired.take(a_catalog(a_model(profiles=(a_profile(weights=OTHER),))), house.clock.at())

    assert house.agents.looked_for == [(WANTED,), (OTHER,)]


async def test_each_node_is_asked_for_what_nobody_wants_and_its_words_come_back() -> None:
    house = _House()
    house.agents.replies["n2"] = WeightsRemoved(request_id=1, refused={NAME: "m.0.0 uses it (ready)"})

    done = await house.weights.collect()

    assert house.agents.asked == {"n1": (NAME,), "n2": (NAME,)}
    assert [(one.node, one.removed, one.refused) for one in done] == [
        ("n1", (NAME,), {}),
        ("n2", (), {NAME: "m.0.0 uses it (ready)"}),
    ]


async def test_a_node_that_does_not_answer_is_an_error_of_its_own_and_hides_no_other() -> None:
    house = _House()
    house.agents.replies["n1"] = NoAnswer("the agent of n1 did not answer within 10 s")

    done = await house.weights.collect()

    assert [(one.node, one.error, one.freed_bytes) for one in done] == [
        ("n1", "the agent of n1 did not answer within 10 s", 0),
        ("n2", None, 1024),
    ]


async def test_what_a_model_wants_is_never_asked_for_whoever_names_it() -> None:
    house = _House()
    wanted = cache_name_of(WANTED) or ""

    done = await house.weights.collect((wanted,))

    assert house.agents.asked == {}
    assert [(one.node, one.refused) for one in done] == [(None, {wanted: "wanted by gemma"})]


async def test_of_two_nodes_one_alone_can_be_asked() -> None:
    house = _House()

    await house.weights.collect(nodes=("n2",))

    assert house.agents.asked == {"n2": (NAME,)}
