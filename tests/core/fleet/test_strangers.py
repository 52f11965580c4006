from fakes.catalogs import a_catalog, a_model
from fakes.fleets import a_fleet
from fakes.nodes import a_shard, an_introduction

from llmgw.core.fleet.catalog import Catalog
from llmgw.core.fleet.strangers import is_strange, strangers
from llmgw.core.reconcile import Stop, plan

LATER = a_shard("gemma", generation=(99, 1))
OURS = a_shard("gemma", generation=(1, 1))


def test_what_a_later_or_the_same_start_of_another_database_placed_is_strange() -> None:
    assert is_strange(LATER, epoch=1, given=(), had=())
    assert is_strange(OURS, epoch=1, given=(), had=())


def test_what_this_database_placed_or_had_is_not_strange() -> None:
    assert not is_strange(OURS, epoch=2, given=(), had=())
    assert not is_strange(OURS, epoch=1, given={OURS.generation}, had=())
    assert not is_strange(LATER, epoch=1, given=(), had={"gemma"})


def test_a_stranger_is_left_alone_and_named_with_what_to_do() -> None:
    fleet = a_fleet(an_introduction("n1", shards=(LATER,)))
    found = strangers(fleet, epoch=1, given=(), had=())

    made = plan(
        Catalog(), fleet, epoch=1, counter=0, now=0.0, strange={(s.node, s.shard.shard) for s in found}
    )

    assert made.actions == ()
    assert "restore the right database" in found[0].text(1)
    assert "gemma.0.0 on node n1" in found[0].text(1)


def test_a_model_that_left_the_catalog_while_the_server_was_down_is_stopped() -> None:
    fleet = a_fleet(an_introduction("n1", shards=(OURS,)))

    made = plan(a_catalog(a_model("other", replicas=0)), fleet, epoch=2, counter=0, now=0.0)

    assert [type(action) for action in made.actions] == [Stop]
    assert strangers(fleet, epoch=2, given=(), had={"other"}) == ()
