"""What an agent says that cannot be true becomes unknown; what can be true stays."""

import math
from typing import Any

import pytest
from fakes.catalogs import a_catalog, a_model
from fakes.fleets import AT, a_fleet
from fakes.machines import a_disk, a_fabric, a_gpu, a_holding
from fakes.nodes import a_shard, an_introduction
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from llmgw.core.fleet.beat import Beat, ShardUse
from llmgw.core.fleet.hardware import GpuProcess, Machine, Memory, Processor
from llmgw.core.fleet.model_shape import ModelShape
from llmgw.core.fleet.sanity import is_credible, sane, sane_beat, sane_gpus, sane_weights
from llmgw.core.fleet.shards import Phase
from llmgw.core.fleet.snapshot import heard, shard_reported
from llmgw.core.fleet.weights import Progress
from llmgw.core.reconcile import plan


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("since_s", float("nan")),
        ("since_s", float("inf")),
        ("since_s", 1e300),
        ("since_s", -5.0),
        ("min_memory_gb", float("nan")),
        ("min_memory_gb", -1.0),
        ("port", 0),
        ("port", 70000),
        ("port", 10**12),
        ("host", ""),
        ("host", "a\0b"),
        ("host", "a b"),
        ("host", "a" * 300 + ".x"),
        ("host", "ü.example"),
    ],
)
def test_what_cannot_be_true_becomes_unknown(field: str, value: Any) -> None:
    assert getattr(sane(a_shard(**{field: value})), field) is None


def test_what_can_be_true_stays_the_same_value() -> None:
    shard = a_shard(since_s=1.9e9, min_memory_gb=2.5, port=9001, host="gpu-07.example", tail=("last",))

    assert sane(shard) is shard


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "fe80::1%eth0"])
def test_addresses_are_hosts(host: str) -> None:
    assert sane(a_shard(host=host)).host == host


def test_long_words_are_cut() -> None:
    shard = sane(a_shard(phase=Phase.FAILED, reason="x" * 10_000, tail=("y" * 10_000,) * 500))

    assert shard.reason is not None
    assert len(shard.reason) < 5_000
    assert len(shard.tail) == 200
    assert len(shard.tail[0]) == 8192


def test_a_register_and_a_report_are_both_looked_at() -> None:
    fleet = a_fleet(an_introduction("n1", shards=(a_shard(since_s=float("nan")),)))
    reported = shard_reported(fleet, "n1", a_shard(port=70000), connection=1, now=1.0)

    assert fleet.nodes["n1"].shards["gemma.0.0"].since_s is None
    assert reported.nodes["n1"].shards["gemma.0.0"].port is None


@given(st.floats(), st.floats())
def test_every_number_leaves_something_that_can_be_shown(since_s: float, memory_gb: float) -> None:
    shard = sane(a_shard(since_s=since_s, min_memory_gb=memory_gb))

    assert shard.since_s is None or AT.fromtimestamp(shard.since_s, AT.tzinfo)
    assert shard.min_memory_gb is None or shard.min_memory_gb >= 0


@pytest.mark.parametrize(
    ("done_bytes", "total_bytes", "rate"),
    [(-1, None, None), (5, 4, None), (0, 2**63, None), (1, None, math.nan), (1, None, -1.0)],
)
def test_a_download_that_cannot_be_so_far_is_unknown(
    done_bytes: int, total_bytes: int | None, rate: float | None
) -> None:
    progress = Progress(cache_name="c", done_bytes=done_bytes, total_bytes=total_bytes, rate=rate)

    assert sane(a_shard(progress=progress)).progress is None


def test_a_download_that_can_be_so_far_stays_as_it_is_said() -> None:
    shard = a_shard(progress=Progress(cache_name="c", done_bytes=4, total_bytes=4, rate=0.0))

    assert sane(shard) is shard


@pytest.mark.parametrize(
    "said",
    [
        {"rank": -1},
        {"rank": 2**62},
        {"ordinal": -1},
        {"ordinal": 2**40},
        {"generation": (2**64 - 1, 1)},
        {"generation": (1, 2**60)},
        {"generation": (-1, 0)},
    ],
)
def test_a_shard_whose_place_or_generation_cannot_be_is_taken_from_nobody(said: dict[str, Any]) -> None:
    shard = a_shard("false", **said)

    fleet = a_fleet(an_introduction("n1", shards=(shard, a_shard())))
    reported = shard_reported(fleet, "n1", shard, connection=1, now=1.0)

    assert not is_credible(shard)
    assert list(fleet.nodes["n1"].shards) == ["gemma.0.0"]
    assert reported is fleet


def test_a_replica_of_more_ranks_than_there_can_be_is_planned_for_at_once() -> None:
    fleet = a_fleet(an_introduction("n1", shards=(a_shard(ranks=2**62),)))

    made = plan(a_catalog(a_model()), fleet, epoch=2, counter=0, now=0.0)

    assert made.actions == ()


@pytest.mark.parametrize("layers", [-1, 2**62])
def test_of_a_header_with_one_false_number_nothing_is_believed(layers: int) -> None:
    held = a_holding(shape=ModelShape(architecture="llama", layers=layers), size_gb=1)

    fleet = heard(
        a_fleet(an_introduction("n1", weights=(held,))),
        "n1",
        connection=1,
        now=1.0,
        at=AT,
        said=Beat(weights=(held, a_holding("hf://lab/other"))),
    )

    assert a_fleet(an_introduction("n1", weights=(held,))).nodes["n1"].weights == (replace(held, shape=None),)
    assert fleet.nodes["n1"].weights == (replace(held, shape=None), a_holding("hf://lab/other"))


@pytest.mark.parametrize(
    "shape",
    [
        ModelShape(architecture="llama", kv_heads=(1, -1)),
        ModelShape(architecture="llama", kv_heads=(1,) * 100_000),
        ModelShape(architecture="llama", window_layers=(True,) * 100_000),
    ],
)
def test_layers_that_cannot_be_make_a_header_that_is_not_believed(shape: ModelShape) -> None:
    assert sane_weights((a_holding(shape=shape),))[0].shape is None


def test_a_gpu_is_kept_once_and_only_with_the_uuid_that_engines_are_given_it_by() -> None:
    first, nameless, again = a_gpu(0), a_gpu(1, uuid=""), a_gpu(2, uuid="GPU-0")

    assert sane_gpus((first, nameless, again)) == (first,)


def test_a_process_on_a_gpu_has_a_pid_that_can_be() -> None:
    fine, false = GpuProcess(pid=7, held_bytes=-5), GpuProcess(pid=-7)

    [gpu] = sane_gpus((a_gpu(foreign=(fine, false)),))

    assert gpu.foreign == (GpuProcess(pid=7),)


def test_numbers_of_a_heartbeat_and_of_a_register_that_cannot_be_are_unknown() -> None:
    machine = Machine(
        memory=Memory(total_bytes=-1, available_bytes=2**64 - 1),
        processor=Processor(cores=-8),
        gpus=(a_gpu(free_gb=-1, utilization=math.nan),),
        filesystems=(a_disk(free_gb=-3),),
    )
    beat = Beat(
        memory=machine.memory,
        gpus=machine.gpus,
        filesystems=machine.filesystems,
        uses=(ShardUse(shard="gemma.0.0", peak_bytes=2**64 - 1),),
    )

    registered = a_fleet(an_introduction("n1", machine=machine))
    fleet = heard(a_fleet(an_introduction("n1")), "n1", connection=1, now=1.0, at=AT, said=beat)

    for one in (registered.nodes["n1"].machine, fleet.nodes["n1"].machine):
        assert (one.memory, one.processor.cores) == (Memory(), None)
        assert one.gpus is not None
        assert (one.gpus[0].free_bytes, one.gpus[0].utilization) == (None, None)
        assert one.filesystems is not None
        assert one.filesystems[0].free_bytes is None
    assert fleet.nodes["n1"].uses == {"gemma.0.0": ShardUse(shard="gemma.0.0")}


def test_a_heartbeat_that_can_be_true_stays_the_same_value() -> None:
    beat = Beat(
        memory=Memory(total_bytes=8, available_bytes=4),
        gpus=(a_gpu(foreign=()),),
        filesystems=(a_disk(),),
        weights=(a_holding(),),
        fabrics=(a_fabric(),),
        engines=(),
        uses=(),
    )

    assert sane_beat(beat) is beat
