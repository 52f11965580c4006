from datetime import timedelta

from fakes.fleets import AT, a_fleet
from fakes.nodes import LLAMA, a_shard, an_introduction
from msgspec.structs import replace

from llmgw.core.fleet.beat import Beat
from llmgw.core.fleet.events import Kind, alarm_events, node_events
from llmgw.core.fleet.hardware import Fabric, Gpu, Memory
from llmgw.core.fleet.shards import Phase
from llmgw.core.fleet.silence import Alarm
from llmgw.core.fleet.snapshot import (
    Fleet,
    Introduction,
    NodeState,
    aged,
    disconnected,
    heard,
    intended,
    register,
    shard_reported,
    told_to_stop,
)
from llmgw.core.ids import Generation
from llmgw.core.units import GIB

LATER = AT + timedelta(seconds=90)


def _texts(before: Fleet, after: Fleet) -> list[str]:
    return [f"{e.kind}: {e.text}" for e in node_events(before.nodes.get("n1"), after.nodes["n1"], LATER)]


def _anew(fleet: Fleet, **given: object) -> Fleet:
    said: Introduction = an_introduction(**given)
    return register(fleet, said, connection=9, now=1.0, at=LATER)


def test_a_node_that_is_new_registered_and_says_what_it_runs() -> None:
    fleet = a_fleet(
        an_introduction(version="1.2", shards=(a_shard(), a_shard(ordinal=1, phase=Phase.FAILED)))
    )

    (event,) = node_events(None, fleet.nodes["n1"], AT)

    assert (event.node, event.at, event.kind) == ("n1", AT, Kind.REGISTERED)
    assert event.text == "registered from 127.0.0.1 (version 1.2), runs gemma.0 (1.1)"


def test_a_sign_of_life_is_no_event() -> None:
    fleet = a_fleet(an_introduction())

    assert _texts(fleet, heard(fleet, "n1", connection=1, now=1.0, at=LATER)) == []


def test_going_being_lost_and_returning_are_events_with_how_long_it_was_before() -> None:
    ready = a_fleet(an_introduction())
    away = disconnected(ready, "n1", connection=1, now=0.0, at=AT)
    lost = aged(away, now=60.0, at=AT, unreachable_after_s=1e9, lost_after_s=60)

    assert _texts(ready, away) == ["state: unreachable, was ready for 90 s"]
    assert _texts(away, lost) == ["state: lost, was unreachable for 90 s"]
    assert _texts(lost, _anew(lost)) == [
        "reconnected: connected again",
        "state: ready again, was lost for 90 s",
    ]


def test_a_reconnect_says_what_moved() -> None:
    fleet = a_fleet(an_introduction(version="1"))

    assert _texts(fleet, _anew(fleet, version="2", address="10.0.0.9")) == [
        "reconnected: connected again; its address is 10.0.0.9, was 127.0.0.1; its version is 2, was 1"
    ]


def test_what_an_operator_wants_is_an_event() -> None:
    fleet = a_fleet(an_introduction())

    assert _texts(fleet, intended(fleet, "n1", NodeState.CORDONED, at=LATER)) == [
        "state: cordoned, was ready for 90 s"
    ]


def test_memory_that_grew_is_an_event_and_memory_that_is_not_told_any_more_is_none() -> None:
    fleet = a_fleet(an_introduction(free_gb=8))

    assert _texts(fleet, _anew(fleet, free_gb=16))[1:] == ["memory: memory is 16.0 GiB, was 8.0 GiB"]
    assert _texts(fleet, _anew(fleet, free_gb=None))[1:] == []


def test_engines_that_come_go_break_and_mend_are_events() -> None:
    broken = replace(LLAMA, problem="libgomp.so.1 is missing")
    one, none, bad = (a_fleet(an_introduction(engines=e)) for e in ((LLAMA,), (), (broken,)))
    newer = a_fleet(an_introduction(engines=(replace(LLAMA, version="b2"),)))
    silent = a_fleet(an_introduction(engines=None))
    name = "engine: engine llama.cpp at /opt/llama/llama-server"

    assert _texts(none, one) == [f"{name} appeared, version b1"]
    assert _texts(one, none) == [f"{name} is gone"]
    assert _texts(one, bad) == [f"{name} cannot be used: libgomp.so.1 is missing"]
    assert _texts(bad, one) == [f"{name} can be used again, version b1"]
    assert _texts(one, newer) == [f"{name} changed, version b2"]
    assert _texts(silent, one) == _texts(one, silent) == []


def _reported(fleet: Fleet, phase: Phase, **given: object) -> Fleet:
    return shard_reported(fleet, "n1", a_shard(phase=phase, **given), connection=1, now=1.0)


def test_replicas_that_become_ready_fail_and_stop_are_events_with_their_generation() -> None:
    starting = a_fleet(an_introduction(shards=(a_shard(phase=Phase.STARTING),)))
    ready = _reported(starting, Phase.READY)
    told = told_to_stop(ready, "n1", "gemma.0.0", Generation(1, 1))
    draining = _reported(told, Phase.DRAINING)

    assert _texts(starting, ready) == ["replica: gemma.0 (1.1) is ready"]
    assert _texts(starting, _reported(starting, Phase.FAILED, reason="no memory")) == [
        "replica: gemma.0 (1.1) failed: no memory"
    ]
    assert _texts(ready, _reported(ready, Phase.STOPPED)) == [
        "replica: gemma.0 (1.1) ended unasked by the server, it was ready"
    ]
    assert _texts(told, draining) == []
    assert _texts(draining, _reported(draining, Phase.STOPPED)) == ["replica: gemma.0 (1.1) stopped"]


def test_a_failed_replica_that_is_forgotten_and_one_that_begins_are_no_events() -> None:
    failed = a_fleet(an_introduction(shards=(a_shard(phase=Phase.FAILED),)))
    begun = _reported(a_fleet(an_introduction()), Phase.PENDING)

    assert _texts(failed, _reported(failed, Phase.STOPPED)) == []
    assert _texts(a_fleet(an_introduction()), begun) == []


def test_the_alarm_is_an_event_of_every_node_that_joins_it_and_its_end_of_all_of_them() -> None:
    first = Alarm(since=AT, nodes=("n1", "n2"), fleet=3)
    grown = replace(first, nodes=("n1", "n2", "n3"))

    raised, joined, over = (
        [(e.node, e.text) for e in alarm_events(before, after, LATER)]
        for before, after in ((None, first), (first, grown), (grown, None))
    )

    text = "nodes are silent, this one too; nothing of it is placed elsewhere"
    assert raised == [("n1", f"2 of 3 {text}"), ("n2", f"2 of 3 {text}")]
    assert joined == [("n3", f"3 of 3 {text}")]
    assert over == [(node, "the alarm of silence is over") for node in ("n1", "n2", "n3")]
    assert alarm_events(None, None, LATER) == ()


def _with_machine(fleet: Fleet, **machine: object) -> Fleet:
    """Let n1 say it in a heartbeat, or all of it anew where a heartbeat has no room for it."""
    beat = {key: value for key, value in machine.items() if key in ("memory", "gpus", "fabrics")}
    if beat == machine:
        return heard(fleet, "n1", connection=1, now=1.0, at=LATER, said=Beat(**beat))
    known = fleet.nodes["n1"]
    said = an_introduction(machine=replace(known.machine, **machine))
    return register(fleet, said, connection=1, now=1.0, at=LATER)


H100 = Gpu(uuid="GPU-1", name="H100", index=0, total_bytes=80, free_bytes=79)


def test_a_gpu_that_is_lost_and_comes_back_is_told_each_time() -> None:
    good = _with_machine(a_fleet(an_introduction()), gpus=(H100,))
    lost = _with_machine(good, gpus=(replace(H100, problem="GPU is lost"),))
    other = _with_machine(lost, gpus=(replace(H100, problem="GPU requires restart"),))

    assert _texts(good, lost) == ["gpu: GPU 0 (H100, GPU-1) cannot be used: GPU is lost"]
    assert _texts(lost, other) == ["gpu: GPU 0 (H100, GPU-1) cannot be used: GPU requires restart"]
    assert _texts(other, _with_machine(other, gpus=(H100,))) == ["gpu: GPU 0 (H100, GPU-1) can be used again"]


def test_gpus_that_appear_and_go_are_told_and_their_memory_is_not() -> None:
    before = _with_machine(a_fleet(an_introduction()), gpus=(H100,))
    fuller = _with_machine(before, gpus=(replace(H100, free_bytes=1, utilization=0.5),))
    broken = Gpu(uuid="GPU-2", problem="GPU is lost")

    assert _texts(before, fuller) == []
    assert _texts(before, _with_machine(before, gpus=(H100, broken))) == [
        "gpu: GPU (GPU-2) appeared, and cannot be used: GPU is lost"
    ]
    assert _texts(before, _with_machine(before, gpus=())) == [
        "gpu: GPU 0 (H100, GPU-1) is gone: its driver does not name it any more"
    ]


def test_gpus_that_were_not_told_before_are_no_news() -> None:
    before = a_fleet(an_introduction())

    assert _texts(before, _with_machine(before, gpus=(H100,))) == []


def test_more_memory_errors_are_told() -> None:
    before = _with_machine(a_fleet(an_introduction()), gpus=(H100,))
    after = _with_machine(before, gpus=(replace(H100, ecc_errors=2),))

    assert _texts(before, after) == ["gpu: GPU 0 (H100, GPU-1) has 2 uncorrected memory errors, had 0"]


def test_another_driver_and_one_that_says_nothing_are_told() -> None:
    before = _with_machine(a_fleet(an_introduction()), driver="550.1", gpus=())
    updated = _with_machine(before, driver="570.2")
    broken = _with_machine(before, gpu_problem="Driver/library version mismatch")

    assert _texts(before, updated) == ["driver: its GPU driver is 570.2, was 550.1"]
    assert _texts(before, broken) == ["driver: its GPUs cannot be told: Driver/library version mismatch"]
    assert _texts(broken, _with_machine(broken, gpu_problem=None)) == ["driver: its GPUs can be told again"]


def test_fabrics_that_are_attached_and_detached_are_told() -> None:
    down = Fabric(name="ib-a", adapter="mlx5_0", problem="port 1 is DOWN (Polling)")
    up = Fabric(name="ib-a", adapter="mlx5_0", attached=True, rate="400 Gb/sec")
    none = _with_machine(a_fleet(an_introduction()), fabrics=())
    attached, detached = _with_machine(none, fabrics=(up,)), _with_machine(none, fabrics=(down,))

    assert _texts(none, attached) == ["fabric: it is attached to fabric ib-a through mlx5_0 (400 Gb/sec)"]
    assert _texts(attached, detached) == [
        "fabric: it is not attached to fabric ib-a through mlx5_0 any more: port 1 is DOWN (Polling)"
    ]
    assert _texts(none, detached) == [
        "fabric: it is not attached to fabric ib-a through mlx5_0: port 1 is DOWN (Polling)"
    ]
    assert _texts(attached, none) == [
        "fabric: it is not attached to fabric ib-a through mlx5_0 any more: "
        "its agent.yaml does not name it any more"
    ]


def test_memory_that_grew_is_told() -> None:
    before = a_fleet(an_introduction(free_gb=3))
    memory = Memory(total_bytes=9 * GIB, available_bytes=9 * GIB)

    assert _texts(before, _with_machine(before, memory=memory)) == ["memory: memory is 9.0 GiB, was 3.0 GiB"]
