import pytest
from fakes.catalogs import a_model
from fakes.fleets import a_fleet
from fakes.machines import HUB, a_fabric, a_filer, a_holding
from fakes.nodes import a_shard, an_introduction
from fakes.placement_worlds import worlds
from fakes.slow_chooser import SlowChooser
from hypothesis import given, settings

from llmgw.core.fleet.catalog import Model
from llmgw.core.fleet.hardware import Machine
from llmgw.core.fleet.shards import Claim, Phase
from llmgw.core.fleet.snapshot import Fleet, Introduction
from llmgw.core.fleet.weights import cache_name_of
from llmgw.core.placement.need import Need
from llmgw.core.placement.place import Placed, place
from llmgw.core.placement.room import claim
from llmgw.core.placement.rooms import Rooms, rooms_of
from llmgw.core.units import GIB

NAME = cache_name_of(HUB)


@settings(max_examples=80, deadline=None)
@given(worlds())
def test_the_index_answers_as_asking_one_room_after_the_other_does(
    world: tuple[Fleet, list[Model], dict[str, Need]],
) -> None:
    fleet, models, needs = world
    rooms = rooms_of(fleet)
    slow = SlowChooser(rooms, needs)

    for model in [one for one in models for _ in range(one.replicas)]:
        quick, careful = place(model, rooms, needs), slow.place(model)

        if isinstance(quick, Placed):
            assert not isinstance(careful, dict)
            assert [(seat.node, seat.claim) for seat in quick.seats] == careful.seats
            assert (quick.profile, quick.fabric) == (careful.profile, careful.fabric)
            for seat in quick.seats:
                rooms[seat.node] = claim(rooms[seat.node], model.name, seat.claim)
                slow.take(seat.node, model.name, seat.claim)
            assert dict(rooms) == slow.rooms
        else:
            assert quick.by_rule == careful


def _filing(name: str, *fabrics: str, **given: object) -> Introduction:
    machine = Machine(filesystems=(a_filer(),), fabrics=tuple(a_fabric(fabric) for fabric in fabrics))
    return an_introduction(name, machine=machine, **given)


def test_rooms_are_listed_by_the_names_of_their_nodes() -> None:
    rooms = rooms_of(a_fleet(an_introduction("n2"), an_introduction("n1")))

    assert list(rooms) == ["n1", "n2"]
    assert len(rooms) == 2
    assert [room.node.id for room in rooms.rows] == ["n1", "n2"]
    with pytest.raises(KeyError):
        rooms["n3"]


def test_what_one_node_is_promised_on_a_shared_filesystem_is_promised_for_all_that_share_it() -> None:
    rooms = rooms_of(a_fleet(_filing("n1"), _filing("n2"), an_introduction("n3")))

    rooms["n1"] = claim(rooms["n1"], "gemma", Claim(disk_bytes=30 * GIB, fetches=NAME))

    left = {name: room.disk.left_bytes for name, room in rooms.items() if room.disk is not None}
    assert left == {"n1": 70 * GIB, "n2": 70 * GIB}


def test_downloads_that_go_on_at_one_node_are_promised_at_the_other_from_the_start() -> None:
    fetching = a_shard(phase=Phase.FETCHING, claim=Claim(disk_bytes=40 * GIB, fetches=NAME))

    rooms = rooms_of(a_fleet(_filing("n1", shards=(fetching,)), _filing("n2")))

    disks = [room.disk for room in rooms.rows]
    assert [disk.left_bytes for disk in disks if disk] == [60 * GIB, 60 * GIB]


def test_weights_on_a_shared_filesystem_are_held_by_all_that_one_fabric_lets_reach_it() -> None:
    held = a_holding(shared=True, device="filer:/models")

    rooms = rooms_of(
        a_fleet(
            _filing("n1", "ib-a", weights=(held,)),
            _filing("n2", "ib-a"),
            _filing("n3", "ib-b"),
            _filing("n4"),
            an_introduction("n5"),
        )
    )

    assert {name: HUB in room.holds for name, room in rooms.items()} == {
        "n1": True,
        "n2": True,
        "n3": False,
        "n4": False,
        "n5": False,
    }


def test_weights_on_a_shared_filesystem_are_held_by_all_that_are_on_no_fabric() -> None:
    held = a_holding(shared=True, device="filer:/models")

    rooms = rooms_of(a_fleet(_filing("n1", weights=(held,)), _filing("n2")))

    assert rooms["n2"].holds == {HUB, NAME}


def test_an_empty_fleet_has_no_rooms() -> None:
    rooms = Rooms()

    refused = place(a_model(), rooms)

    assert not isinstance(refused, Placed)
    assert (refused.nodes, refused.by_rule) == (0, {})
