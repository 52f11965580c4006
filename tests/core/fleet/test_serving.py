import pytest
from fakes.fleets import AT, a_fleet
from fakes.nodes import a_shard, an_introduction

from llmgw.core.fleet.serving import serving_shards
from llmgw.core.fleet.shards import Phase
from llmgw.core.fleet.snapshot import Fleet, Introduction, aged, disconnected, told_to_stop
from llmgw.core.ids import Generation


def _where(fleet: Fleet) -> list[tuple[str, str]]:
    return [
        (one.node.id, one.shard.replica) for of_model in serving_shards(fleet).values() for one in of_model
    ]


def test_ready_shards_of_rank_zero_serve_in_the_order_of_replicas() -> None:
    shards = (
        a_shard(ordinal=1),
        a_shard(ordinal=0),
        a_shard(ordinal=2, phase=Phase.STARTING),
        a_shard(ordinal=0, rank=1),
        a_shard("other"),
    )

    serving = serving_shards(a_fleet(an_introduction(shards=shards)))

    assert [one.shard.replica for one in serving["gemma"]] == ["gemma.0", "gemma.1"]
    assert [one.shard.shard for one in serving["gemma"]] == ["gemma.0.0", "gemma.1.0"]
    assert set(serving) == {"gemma", "other"}


def test_of_two_ready_generations_only_the_later_serves() -> None:
    for first, second, wanted in (((1, 1), (1, 2), "n2"), ((1, 2), (1, 1), "n1")):
        fleet = a_fleet(
            an_introduction("n1", shards=(a_shard(generation=first),)),
            an_introduction("n2", shards=(a_shard(generation=second),)),
        )
        assert _where(fleet) == [(wanted, "gemma.0")]


def test_a_copy_serves_on_while_its_replacement_loads() -> None:
    fleet = a_fleet(
        an_introduction("n1", shards=(a_shard(generation=(1, 1)),)),
        an_introduction("n2", shards=(a_shard(generation=(1, 2), phase=Phase.STARTING),)),
    )

    assert _where(fleet) == [("n1", "gemma.0")]


@pytest.mark.parametrize("silent_s", [0.0, 100.0])
def test_a_later_copy_out_of_reach_does_not_silence_an_older_one_within_reach(silent_s: float) -> None:
    fleet = a_fleet(
        an_introduction("n1", shards=(a_shard(generation=(1, 1)),)),
        an_introduction("n2", shards=(a_shard(generation=(1, 2)),)),
    )
    fleet = disconnected(fleet, "n2", connection=fleet.nodes["n2"].connection, now=0.0, at=AT)
    fleet = aged(fleet, now=silent_s, at=AT, unreachable_after_s=1000.0, lost_after_s=60.0)

    assert _where(fleet) == [("n1", "gemma.0")]


def test_a_later_copy_with_a_rank_out_of_reach_does_not_silence_an_older_one_within_reach() -> None:
    later = _gang(Phase.READY, Phase.READY, generation=(1, 2))
    fleet = a_fleet(*later, an_introduction("n9", shards=(a_shard(generation=(1, 1)),)))
    fleet = disconnected(fleet, "n1", connection=fleet.nodes["n1"].connection, now=0.0, at=AT)

    assert _where(fleet) == [("n9", "gemma.0")]


def test_what_a_lost_node_said_last_still_serves() -> None:
    fleet = disconnected(a_fleet(an_introduction(shards=(a_shard(),))), "n1", connection=1, now=0.0, at=AT)
    fleet = aged(fleet, now=100.0, at=AT, unreachable_after_s=15.0, lost_after_s=60.0)

    assert _where(fleet) == [("n1", "gemma.0")]


def test_a_shard_that_was_told_to_stop_takes_no_request_any_more() -> None:
    fleet = told_to_stop(a_fleet(an_introduction(shards=(a_shard(),))), "n1", "gemma.0.0", Generation(1, 1))

    assert serving_shards(fleet) == {}


def _gang(*phases: Phase, generation: tuple[int, int] = (1, 1)) -> list[Introduction]:
    return [
        an_introduction(
            f"n{rank}", shards=(a_shard(rank=rank, ranks=len(phases), phase=phase, generation=generation),)
        )
        for rank, phase in enumerate(phases)
    ]


def test_of_several_ranks_the_first_serves_when_all_are_ready() -> None:
    assert _where(a_fleet(*_gang(Phase.READY, Phase.READY))) == [("n0", "gemma.0")]


@pytest.mark.parametrize("other", [Phase.STARTING, Phase.FAILED, Phase.DRAINING])
def test_a_replica_with_a_rank_that_is_not_ready_serves_nobody(other: Phase) -> None:
    assert _where(a_fleet(*_gang(Phase.READY, other))) == []


def test_a_replica_with_a_rank_that_is_nowhere_serves_nobody() -> None:
    assert _where(a_fleet(_gang(Phase.READY, Phase.READY)[0])) == []


def test_ranks_of_two_generations_make_no_replica() -> None:
    head, _ = _gang(Phase.READY, Phase.READY, generation=(1, 2))
    _, other = _gang(Phase.READY, Phase.READY, generation=(1, 1))

    assert _where(a_fleet(head, other)) == []


def test_a_replica_one_of_whose_ranks_was_told_to_stop_takes_no_requests() -> None:
    fleet = told_to_stop(a_fleet(*_gang(Phase.READY, Phase.READY)), "n1", "gemma.0.1", Generation(1, 1))

    assert _where(fleet) == []


@pytest.mark.parametrize("order", [("old", "new"), ("new", "old")])
def test_a_process_that_two_nodes_tell_of_is_reached_where_the_node_is_within_reach(
    order: tuple[str, str],
) -> None:
    fleet = a_fleet(*(an_introduction(node, shards=(a_shard(),)) for node in order))
    fleet = disconnected(fleet, "old", connection=fleet.nodes["old"].connection, now=0.0, at=AT)

    assert _where(fleet) == [("new", "gemma.0")]
