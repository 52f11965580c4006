from fakes.catalogs import a_model, a_profile
from fakes.fleets import a_fleet
from fakes.nodes import a_shard, an_introduction
from hypothesis import given
from hypothesis import strategies as st

from llmgw.core.fleet.catalog import Model
from llmgw.core.fleet.shards import Phase
from llmgw.core.fleet.snapshot import Introduction
from llmgw.core.placement.demand import demand_of
from llmgw.core.placement.place import Placed, Refused, judge, place
from llmgw.core.placement.rooms import rooms_of


def _place(model: Model, *said: Introduction) -> Placed | Refused:
    return place(model, rooms_of(a_fleet(*said)))


def _node(model: Model, *said: Introduction) -> str:
    placed = _place(model, *said)
    assert isinstance(placed, Placed)
    return placed.node


def test_the_first_profile_that_fits_anywhere_wins() -> None:
    model = a_model(profiles=(a_profile(name="big", min_memory_gb=100), a_profile(name="small")))

    placed = _place(model, an_introduction())

    assert isinstance(placed, Placed)
    assert placed.profile.name == "small"


def test_a_node_without_a_failed_copy_comes_before_one_with_fewer_copies() -> None:
    failed = an_introduction("n1", shards=(a_shard(phase=Phase.FAILED),))
    crowded = an_introduction("n2", shards=(a_shard(ordinal=1), a_shard(ordinal=2)))

    assert _node(a_model(), failed, crowded) == "n2"


def test_fewest_copies_come_before_the_tightest_fit() -> None:
    tight = an_introduction("n1", free_gb=4, shards=(a_shard(),))
    wide = an_introduction("n2", free_gb=64)

    assert _node(a_model(), tight, wide) == "n2"


def test_of_equal_nodes_the_tightest_fit_and_then_the_first_name_is_chosen() -> None:
    sizes = (an_introduction("n1", free_gb=64), an_introduction("n2", free_gb=8))
    equals = (an_introduction("n2"), an_introduction("n1"))

    assert _node(a_model(profiles=(a_profile(min_memory_gb=4),)), *sizes) == "n2"
    assert _node(a_model(), *equals) == "n1"


def test_what_decided_is_said() -> None:
    alone = _place(a_model(), an_introduction())
    only = _place(
        a_model(profiles=(a_profile(min_memory_gb=32),)),
        an_introduction("n1", free_gb=8),
        an_introduction("n2"),
    )
    best = _place(a_model(), an_introduction("n1"), an_introduction("n2"))

    assert [p.because for p in (alone, only, best) if isinstance(p, Placed)] == [
        "the only node",
        "the only one of 2 nodes that fits",
        "the best of 2 nodes that fit (of 2) by weights held, fewest copies and tightest fit",
    ]


def test_a_refusal_counts_by_rule_and_names_the_nodes_that_came_nearest_for_each_profile() -> None:
    model = a_model(profiles=(a_profile(name="a", min_memory_gb=100), a_profile(name="b", engine="vllm")))
    small = an_introduction("n3", pool="batch")

    refused = _place(model, an_introduction("n1", engines=()), an_introduction("n2"), small)

    assert isinstance(refused, Refused)
    assert (refused.nodes, refused.count) == (3, 6)
    assert refused.by_rule == {"engine": 4, "memory": 2}
    assert [(v.profile, v.node, v.rule) for v in refused.verdicts] == [
        ("a", "n2", "memory"),
        ("b", "n1", "engine"),
    ]


def test_a_summary_names_few_verdicts_and_counts_the_others() -> None:
    model = a_model(profiles=(a_profile(engine="vllm"),))

    nobody, two, many = (
        _place(model, *(an_introduction(f"n{i}") for i in range(count))) for count in (0, 2, 7)
    )

    assert isinstance(nobody, Refused)
    assert isinstance(two, Refused)
    assert isinstance(many, Refused)
    assert "no node is registered; start 'llmgw agent' on one" in nobody.summary()
    assert two.summary().startswith("model 'gemma' fits on none of 2 nodes: n0: engine: needs engine vllm")
    assert "more verdicts" not in two.summary()
    assert many.summary().endswith("; and 4 more verdicts (7 for engine in all)")


NODES = st.lists(
    st.builds(
        an_introduction,
        node=st.sampled_from([f"n{i}" for i in range(6)]),
        free_gb=st.sampled_from([None, 1, 8, 64]),
        labels=st.sampled_from([{}, {"rack": "b2"}]),
    ),
    unique_by=lambda said: said.node,
)
PROFILES = st.lists(
    st.builds(
        a_profile,
        engine=st.sampled_from(["llama.cpp", "vllm"]),
        min_memory_gb=st.sampled_from([None, 4, 32]),
        node_selector=st.sampled_from([{}, {"rack": "b2"}]),
    ),
    min_size=1,
    max_size=3,
)


@given(NODES, PROFILES)
def test_a_replica_is_placed_where_nothing_refuses_it_or_refused_by_every_node(
    said: list[Introduction], profiles: list
) -> None:
    rooms = rooms_of(a_fleet(*said))

    choice = place(a_model(profiles=tuple(profiles)), rooms)

    if isinstance(choice, Placed):
        assert judge(demand_of(choice.profile), rooms[choice.node]) is None
        earlier = profiles[: profiles.index(choice.profile)]
        assert all(judge(demand_of(p), room) is not None for p in earlier for room in rooms.values())
    else:
        assert choice.count == len(rooms) * len(profiles)
        assert {v.profile for v in choice.verdicts} == ({p.name for p in profiles} if rooms else set())
        assert sum(choice.by_rule.values()) == choice.count
