"""What agents said before there were words for GPUs, fabrics and holdings still gets replicas placed."""

from datetime import UTC, datetime
from pathlib import Path

from fakes.catalogs import a_catalog, a_model, a_profile
from fakes.nodes import an_introduction
from msgspec.structs import replace

from llmgw.core.fleet.shards import Phase
from llmgw.core.fleet.snapshot import Fleet, Node, heard, register
from llmgw.core.placement.explain import explain
from llmgw.core.placement.place import Placed, place
from llmgw.core.placement.room import room_of
from llmgw.core.placement.rooms import rooms_of
from llmgw.core.reconcile import Start, plan
from llmgw.core.units import GIB
from llmgw.wire import frames
from llmgw.wire.codec import from_agent

GOLDEN = Path(__file__).parents[2] / "wire" / "golden"
AT = datetime(2030, 1, 1, tzinfo=UTC)


def _frame(name: str) -> frames.FromAgent:
    frame = from_agent((GOLDEN / f"{name}.bin").read_bytes())
    assert isinstance(frame, frames.Register | frames.Heartbeat)
    return frame


def _old_fleet() -> tuple[Fleet, Node]:
    """Register a node, and hear it once, with what the first versions said."""
    registered, beat = _frame("register"), _frame("heartbeat")
    assert isinstance(registered, frames.Register)
    assert isinstance(beat, frames.Heartbeat)
    name = registered.said.node
    fleet = register(Fleet(), registered.said, connection=1, now=0.0, at=AT)
    fleet = heard(fleet, name, connection=1, now=1.0, at=AT, said=beat)
    return fleet, fleet.nodes[name]


def test_the_golden_frames_are_those_of_agents_that_say_nothing_of_the_new_things() -> None:
    _, node = _old_fleet()

    assert (node.machine.gpus, node.machine.fabrics, node.weights) == (None, None, None)
    assert all(shard.claim is None for shard in node.shards.values())


def test_a_node_that_says_nothing_of_gpus_disks_fabrics_and_weights_is_refused_for_none_of_them() -> None:
    fleet, node = _old_fleet()
    demanding = a_profile(
        engine=node.engines[0].engine if node.engines else "llama.cpp",
        weights="hf://lab/model/model.gguf",
        gpus=8,
        gpu_class="h100",
        min_gpu_memory_gb=70,
        fabric="ib-a",
    )

    placed = place(a_model(profiles=(demanding,)), rooms_of(fleet))

    assert isinstance(placed, Placed)
    assert (placed.node, placed.seats[0].claim.gpus) == (node.id, ())


def test_a_plan_over_an_old_node_starts_what_is_wanted_and_explains_it() -> None:
    fleet, node = _old_fleet()
    model = a_model("fresh", profiles=(a_profile(min_memory_gb=0.5),))
    old = {shard.model for shard in node.shards.values()}
    catalog = [model, *(a_model(name) for name in sorted(old))]

    made = plan(a_catalog(*catalog), fleet, epoch=9, counter=0, now=2.0)
    explained = explain(model, fleet, now=2.0, at=AT)

    assert [
        action.node for action in made.actions if isinstance(action, Start) and action.spec.model == "fresh"
    ] == [node.id]
    assert [answer.fits for answer in explained.nodes] == [True]


def test_an_old_agent_among_new_ones_is_given_no_rank_and_its_verdict_says_why() -> None:
    old = _frame("register")
    assert isinstance(old, frames.Register)
    model = a_model("wide", profiles=(a_profile(nodes=2, min_memory_gb=0.5),))
    fleet = register(Fleet(), old.said, connection=1, now=0.0, at=AT, protocol=old.protocol)
    said = an_introduction("new-1"), an_introduction("new-2")
    for number, one in enumerate(said, start=2):
        fleet = register(fleet, one, connection=number, now=0.0, at=AT, protocol=frames.PROTOCOL)

    placed = place(model, rooms_of(fleet))
    explained = explain(model, fleet, now=0.0, at=AT)

    assert isinstance(placed, Placed)
    assert [seat.node for seat in placed.seats] == ["new-1", "new-2"]
    [verdict] = [answer.verdict for answer in explained.nodes if answer.verdict is not None]
    assert (verdict.node, verdict.rule) == (old.said.node, "agent")


def test_what_an_old_agents_shard_was_promised_is_known_from_what_its_profile_asked_for() -> None:
    _, node = _old_fleet()
    running = {name: replace(shard, phase=Phase.READY) for name, shard in node.shards.items()}

    room = room_of(replace(node, shards=running))

    asked = [shard.min_memory_gb for shard in running.values() if shard.min_memory_gb is not None]
    assert asked
    assert room.claimed_bytes == sum(int(gib * GIB) for gib in asked)
