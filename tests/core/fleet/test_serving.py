from fakes.fleets import AT, a_fleet
from fakes.nodes import a_shard, an_introduction

from llmgw.core.fleet.serving import serving_shards
from llmgw.core.fleet.shards import Phase
from llmgw.core.fleet.snapshot import Fleet, aged, disconnected, told_to_stop
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


def test_what_a_lost_node_said_last_still_serves() -> None:
    fleet = disconnected(a_fleet(an_introduction(shards=(a_shard(),))), "n1", connection=1, now=0.0, at=AT)
    fleet = aged(fleet, now=100.0, at=AT, unreachable_after_s=15.0, lost_after_s=60.0)

    assert _where(fleet) == [("n1", "gemma.0")]


def test_a_shard_that_was_told_to_stop_takes_no_request_any_more() -> None:
    fleet = told_to_stop(a_fleet(an_introduction(shards=(a_shard(),))), "n1", "gemma.0.0", Generation(1, 1))

    assert serving_shards(fleet) == {}
