import pytest
from fakes.catalogs import a_profile
from fakes.fleets import a_fleet
from fakes.machines import HUB, a_disk, a_filer, a_gpu, a_holding
from fakes.nodes import a_shard, an_introduction

from llmgw.core.fleet.hardware import Machine, Memory
from llmgw.core.fleet.shards import Claim, Phase
from llmgw.core.fleet.weights import cache_name_of
from llmgw.core.placement.demand import demand_of
from llmgw.core.placement.filters import judge
from llmgw.core.placement.need import Need, Said
from llmgw.core.placement.room import Room
from llmgw.core.placement.rooms import rooms_of
from llmgw.core.placement.verdict import Verdict
from llmgw.core.units import GIB

NAME = cache_name_of(HUB)


def _room(**given: object) -> Room:
    return rooms_of(a_fleet(an_introduction(**given)))["n1"]


def _judge(room: Room, need: Need | None = None, **given: object) -> Verdict | None:
    return judge(demand_of(a_profile(**{"weights": HUB} | given), need), room)


def test_the_verdict_says_whether_the_memory_asked_for_was_given_estimated_or_measured() -> None:
    room = _room(free_gb=4)
    known = {"estimated_bytes": 9 * GIB, "measured_bytes": 6 * GIB}

    given = _judge(room, Need(memory_bytes=9 * GIB, **known), min_memory_gb=8)
    estimated = _judge(room, Need(memory_bytes=9 * GIB, estimated_bytes=9 * GIB))
    measured = _judge(room, Need(memory_bytes=6 * GIB, said=Said.MEASURED, **known))

    assert [verdict.needed for verdict in (given, estimated, measured) if verdict] == [
        "8.0 GiB of memory (given, measured 6.0 GiB, estimated 9.0 GiB)",
        "9.0 GiB of memory (estimated 9.0 GiB)",
        "6.0 GiB of memory (measured 6.0 GiB, estimated 9.0 GiB)",
    ]


def test_what_a_gpu_takes_of_main_memory_is_counted_where_it_shares_that() -> None:
    memory = Memory(total_bytes=64 * GIB, available_bytes=30 * GIB)
    room = _room(machine=Machine(memory=memory, gpus=(a_gpu(unified=True),)))

    fits = _judge(room, gpus=1, min_gpu_memory_gb=20, min_memory_gb=10)
    refused = _judge(room, gpus=1, min_gpu_memory_gb=20, min_memory_gb=11)
    alone = _judge(room, gpus=1, min_gpu_memory_gb=31)

    assert fits is None
    assert refused is not None
    assert (refused.rule, refused.needed) == (
        "memory",
        "31.0 GiB of memory (given; its GPUs' share of it counted in)",
    )
    assert alone is not None
    assert alone.rule == "gpu-memory"


def test_too_little_disk_is_refused_with_the_filesystem() -> None:
    room = _room(machine=Machine(filesystems=(a_disk(45),)))

    verdict = _judge(room, min_disk_gb=60)

    assert verdict is not None
    assert str(verdict) == (
        "n1: disk: needs 60.0 GiB of disk for weights that are not there yet, has 45.0 GiB free of 500.0 GiB on /var "
        "(/dev/nvme0n1p2); would fit if 15.0 GiB more were free on /var, or the weights were there"
    )


def test_downloads_that_are_promised_are_counted_and_said() -> None:
    other = a_shard("other", phase=Phase.FETCHING, claim=Claim(disk_bytes=70 * GIB, fetches="x"))
    room = _room(machine=Machine(filesystems=(a_filer(100),)), shards=(other,))

    verdict = _judge(room, min_disk_gb=60)

    assert verdict is not None
    assert verdict.had == (
        "30.0 GiB free of 500.0 GiB on /srv (filer:/models, shared), 70.0 GiB promised to downloads"
    )


def test_the_disk_is_not_asked_for_weights_that_are_there_or_coming_or_never_fetched() -> None:
    full = Machine(filesystems=(a_disk(1),))
    coming = a_shard(phase=Phase.FETCHING, claim=Claim(disk_bytes=60 * GIB, fetches=NAME))

    there = _judge(_room(machine=full, weights=(a_holding(),)), min_disk_gb=60)
    promised = _judge(_room(machine=full, shards=(coming,)), min_disk_gb=60)
    partial = _judge(_room(machine=full, weights=(a_holding(size_gb=59, complete=False),)), min_disk_gb=60)
    path = _judge(_room(machine=full), weights="file:///srv/models/gemma.gguf", min_disk_gb=60)

    assert (there, promised, partial, path) == (None, None, None, None)


def test_an_unfinished_download_is_no_weights_and_only_what_it_lacks_is_asked_for() -> None:
    room = _room(machine=Machine(filesystems=(a_disk(5),)), weights=(a_holding(size_gb=50, complete=False),))

    verdict = _judge(room, min_disk_gb=60)

    assert verdict is not None
    assert verdict.needed == "10.0 GiB of disk for weights that are not there yet"


def test_the_size_of_weights_that_other_nodes_hold_is_asked_for_when_none_is_given() -> None:
    room = _room(machine=Machine(filesystems=(a_disk(5),)))

    verdict = _judge(room, Need(disk_bytes=20 * GIB))

    assert verdict is not None
    assert verdict.rule == "disk"


def test_a_disk_that_is_not_reported_refuses_nobody() -> None:
    assert _judge(_room(), min_disk_gb=60) is None
    assert _judge(_room(machine=Machine(filesystems=(a_disk(None),))), min_disk_gb=60) is None


@pytest.mark.parametrize(("total_gb", "free_gb", "claimed_gb"), [(64, 48, 8), (64, 64, 0), (64, 30, 60)])
def test_a_node_that_has_grown_by_what_its_verdict_says_fits(
    total_gb: int, free_gb: int, claimed_gb: int
) -> None:
    shards = (a_shard(claim=Claim(memory_bytes=claimed_gb * GIB)),)

    def judged(more_gb: int) -> Verdict | None:
        memory = Memory(total_bytes=(total_gb + more_gb) * GIB, available_bytes=(free_gb + more_gb) * GIB)
        said = an_introduction(machine=Machine(memory=memory), shards=shards)
        return judge(demand_of(a_profile(min_memory_gb=100)), rooms_of(a_fleet(said))["n1"])

    lacking = 100 - min(free_gb, total_gb - claimed_gb)
    refused = judged(0)

    assert refused is not None
    assert refused.would_fit_if == f"it had {lacking}.0 GiB more memory, or the profile asked for less"
    assert judged(lacking - 1) is not None
    assert judged(lacking) is None
