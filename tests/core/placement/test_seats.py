from fakes.catalogs import a_model, a_profile
from fakes.fleets import a_fleet
from fakes.machines import a_fabric, a_gpu
from fakes.nodes import a_shard, an_introduction

from llmgw.core.fleet.hardware import Machine
from llmgw.core.fleet.snapshot import Introduction
from llmgw.core.placement.answers import answers
from llmgw.core.placement.place import Placed, Refused, demands_of, place
from llmgw.core.placement.rooms import rooms_of


def _on(name: str, *fabrics: str, gpus: int = 0, **given: object) -> Introduction:
    machine = Machine(
        fabrics=tuple(a_fabric(fabric) for fabric in fabrics),
        gpus=tuple(a_gpu(index, uuid=f"{name}-{index}") for index in range(gpus)),
    )
    return an_introduction(name, machine=machine, **given)


def _place(*said: Introduction, **asks: object) -> Placed | Refused:
    return place(a_model(profiles=(a_profile(**asks),)), rooms_of(a_fleet(*said)))


def _seats(*said: Introduction, **asks: object) -> tuple[list[str], str | None]:
    placed = _place(*said, **asks)
    assert isinstance(placed, Placed)
    return [seat.node for seat in placed.seats], placed.fabric


def test_a_replica_of_several_nodes_has_a_seat_on_each_of_as_many_by_rank() -> None:
    seats = _seats(_on("n3"), _on("n1"), _on("n2"), nodes=2)

    assert seats == (["n1", "n2"], None)


def test_every_seat_has_the_gpus_of_its_own_node() -> None:
    placed = _place(_on("n1", gpus=2), _on("n2", gpus=2), nodes=2, gpus=2)

    assert isinstance(placed, Placed)
    assert [seat.claim.gpus for seat in placed.seats] == [("n1-0", "n1-1"), ("n2-0", "n2-1")]
    assert placed.node == "n1"


def test_all_seats_are_on_the_fabric_that_is_asked_for() -> None:
    said = (_on("n1", "ib-b"), _on("n2", "ib-a"), _on("n3", "ib-a", "ib-b"), _on("n4"))

    assert _seats(*said, nodes=2, fabric="ib-a") == (["n2", "n3"], "ib-a")


def test_any_fabric_is_one_that_all_seats_share() -> None:
    said = (_on("n1", "ib-a"), _on("n2", "ib-b"), _on("n3", "ib-c"), _on("n4", "ib-b"))

    assert _seats(*said, nodes=2, fabric="any") == (["n2", "n4"], "ib-b")


def test_of_several_fabrics_the_one_whose_nodes_are_best_together_is_chosen() -> None:
    busy = (_on("n1", "ib-a", shards=(a_shard(),)), _on("n2", "ib-a"))
    idle = (_on("n3", "ib-b"), _on("n4", "ib-b"))

    assert _seats(*busy, *idle, nodes=2, fabric="any") == (["n3", "n4"], "ib-b")


def test_the_best_nodes_are_taken_before_others_and_the_first_names_among_equals() -> None:
    said = (
        _on("n1", shards=(a_shard(), a_shard(ordinal=1))),
        _on("n2", shards=(a_shard(ordinal=2),)),
        _on("n3"),
    )

    assert _seats(*said, _on("n4"), nodes=3) == (["n2", "n3", "n4"], None)
    assert _seats(*said, nodes=1) == (["n3"], None)


def test_all_or_nothing_too_few_nodes_on_one_fabric_are_refused_with_how_many_there_are() -> None:
    refused = _place(_on("n1", "ib-a"), _on("n2", "ib-b"), _on("n3", "ib-a"), nodes=3, fabric="any")

    assert isinstance(refused, Refused)
    assert refused.by_rule == {"fabric": 3}
    assert str(refused.verdicts[0]) == (
        "n1: fabric: needs 3 nodes that fit on one fabric, has 2 on fabric ib-a; "
        "would fit if 1 more fitted on fabric ib-a"
    )


def test_too_few_nodes_without_a_fabric_are_refused_by_their_number() -> None:
    refused = _place(_on("n1"), _on("n2", engines=()), nodes=2)

    assert isinstance(refused, Refused)
    assert refused.by_rule == {"engine": 1, "nodes": 1}
    assert str(refused.verdicts[0]) == (
        "n1: nodes: needs 2 nodes that fit, has 1; would fit if 1 more fitted"
    )


def test_a_fabric_that_nobody_is_on_is_told_so() -> None:
    refused = _place(_on("n1"), _on("n2"), nodes=2, fabric="ib-a")

    assert isinstance(refused, Refused)
    assert refused.by_rule == {"fabric": 2}
    assert refused.verdicts[0].had == "no fabric"


def test_a_node_that_fits_alone_answers_that_it_does_not_where_too_few_others_fit_with_it() -> None:
    model = a_model(profiles=(a_profile(nodes=2, fabric="ib-a"),))
    rooms = rooms_of(a_fleet(_on("n1", "ib-a"), _on("n2")))
    ((profile, demand),) = demands_of(model)

    found = answers(profile, demand, rooms)

    assert [(one.node, one.fits, one.verdict and one.verdict.had) for one in found] == [
        ("n1", False, "1 on fabric ib-a"),
        ("n2", False, "no fabric"),
    ]
