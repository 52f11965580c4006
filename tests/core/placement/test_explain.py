from datetime import timedelta
from typing import Any

from fakes.catalogs import a_model, a_profile
from fakes.fleets import AT, a_fleet
from fakes.nodes import a_shard, an_introduction

from llmgw.core.fleet.catalog import Model
from llmgw.core.fleet.shards import Phase
from llmgw.core.fleet.snapshot import Fleet, NodeState, disconnected, intended, told_to_stop
from llmgw.core.ids import Generation
from llmgw.core.placement.explain import Explanation, explain, replica_lines, why_not_served
from llmgw.core.placement.place import Refused, place
from llmgw.core.placement.rooms import rooms_of

LATER = AT + timedelta(seconds=8)


def _explain(fleet: Fleet, model: Model | None = None, **given: Any) -> Explanation:
    return explain(model or a_model(), fleet, **{"now": 8.0, "at": LATER} | given)


def _why_not(fleet: Fleet, model: Model | None = None, hold: str | None = None) -> str:
    choice = place(model or a_model(), rooms_of(fleet))
    refused = {choice.model: choice} if isinstance(choice, Refused) else {}
    said = why_not_served(model or a_model(), fleet, refused, now=8.0, at=LATER, hold=hold)
    explained = _explain(fleet, model, hold=hold)
    if explained.ready == 0:
        assert explained.why_not == said
    return said


def test_a_served_model_has_no_why_not_and_says_how_its_replicas_stand() -> None:
    fleet = a_fleet(an_introduction(shards=(a_shard(since_s=AT.timestamp()), a_shard("other"))))

    explained = _explain(fleet)

    assert (explained.wanted, explained.ready, explained.why_not) == (1, 1, None)
    assert [(r.replica, r.node, r.phase, r.text) for r in explained.replicas] == [
        ("gemma.0", "n1", Phase.READY, "ready for 8 s")
    ]


def test_a_replica_on_a_node_that_is_drained_says_how_long_it_serves() -> None:
    fleet = intended(a_fleet(an_introduction(shards=(a_shard(),))), "n1", NodeState.DRAINING, at=AT)

    (line,) = _explain(fleet).replicas

    assert line.text == "ready (its node is drained: it serves until another is ready)"


def test_every_node_answers_every_profile() -> None:
    model = a_model(profiles=(a_profile(name="big", min_memory_gb=100), a_profile(name="small")))

    answers = _explain(a_fleet(an_introduction("n2"), an_introduction("n1")), model).nodes

    assert [(a.node, a.profile, a.fits) for a in answers] == [
        ("n1", "big", False),
        ("n2", "big", False),
        ("n1", "small", True),
        ("n2", "small", True),
    ]
    assert answers[0].verdict is not None
    assert (answers[0].verdict.rule, answers[0].verdict.profile) == ("memory", "big")


def test_a_model_that_is_loading_is_why_it_is_not_served() -> None:
    loading = a_shard(phase=Phase.STARTING, since_s=AT.timestamp(), reason="loading weights")

    said = _why_not(a_fleet(an_introduction(shards=(loading,))))

    assert said == "replica gemma.0 on n1 is starting for 8 s: loading weights"


def test_a_failed_replica_says_its_reason_its_failures_and_when_it_is_tried_again() -> None:
    fleet = a_fleet(an_introduction(shards=(a_shard(phase=Phase.FAILED, reason="no memory"),)), now=7.5)

    waiting = _why_not(fleet)
    due = explain(a_model(), fleet, now=20.0, at=LATER).replicas[0].text

    assert waiting == "replica gemma.0 on n1 is failed: no memory (failure 1, tried again in 1 s)"
    assert due == "failed: no memory (failure 1, tried again when it fits somewhere)"


def test_a_replica_that_was_told_to_stop_is_not_ready() -> None:
    fleet = told_to_stop(a_fleet(an_introduction(shards=(a_shard(),))), "n1", "gemma.0.0", Generation(1, 1))

    explained = _explain(fleet)

    assert explained.ready == 0
    assert explained.replicas[0].text == "ready (it was told to stop)"


def test_what_a_silent_node_said_last_is_marked_as_such() -> None:
    fleet = disconnected(a_fleet(an_introduction(shards=(a_shard(),))), "n1", connection=1, now=0.0, at=AT)

    explained = _explain(fleet)

    assert explained.ready == 1
    assert explained.replicas[0].text == (
        "ready (so it was before the node fell silent: unreachable for 8 s)"
    )


def test_of_many_replicas_that_are_not_ready_a_few_are_named_and_the_others_counted() -> None:
    shards = tuple(a_shard(ordinal=i, phase=Phase.STARTING) for i in range(9))
    fleet = a_fleet(an_introduction(shards=shards))

    said = _why_not(fleet, a_model(replicas=9))
    lines = replica_lines("gemma", fleet, now=8.0, at=LATER)

    assert said.startswith("replica gemma.0 on n1 is starting; replica gemma.1 on n1 is starting; ")
    assert said.endswith("; and 4 more replicas")
    assert len(lines) == 9


def test_the_reason_names_what_has_to_be_changed() -> None:
    assert _why_not(a_fleet(an_introduction()), a_model(replicas=0)) == (
        "model 'gemma' has 0 replicas in the catalog; raise replicas to serve it"
    )
    assert _why_not(a_fleet()) == (
        "model 'gemma' fits nowhere: no node is registered; start 'llmgw agent' on one"
    )
    assert _why_not(a_fleet(an_introduction())) == "model 'gemma' is about to be placed"
    assert _why_not(a_fleet(an_introduction()), hold="the server has just started") == (
        "the server has just started"
    )


def test_a_model_that_fits_nowhere_names_a_few_verdicts_and_counts_the_others() -> None:
    model = a_model(profiles=(a_profile(engine="vllm"),))

    few = _why_not(a_fleet(an_introduction()), model)
    many = _why_not(a_fleet(*(an_introduction(f"n{i}") for i in range(300))), model)

    assert few.startswith(
        "model 'gemma' fits on none of 1 nodes: n1: engine: needs engine vllm, has engines: llama.cpp"
    )
    assert many.endswith("; and 297 more verdicts (300 for engine in all)")
    assert len(many) < 2000
