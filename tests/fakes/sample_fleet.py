"""A small fleet in which every kind of trouble shows once."""

from fakes.catalogs import a_catalog, a_model, a_profile
from fakes.fleets import AT, a_fleet
from fakes.nodes import LLAMA, a_shard, an_introduction
from msgspec.structs import replace

from llmgw.core.fleet.beat import Beat, ShardUse
from llmgw.core.fleet.catalog import Catalog
from llmgw.core.fleet.hardware import EngineInstall, Filesystem, Machine, Memory, Processor
from llmgw.core.fleet.shards import Phase
from llmgw.core.fleet.snapshot import Fleet, Introduction, aged, heard, shard_reported
from llmgw.core.units import GIB

PROFILE = a_profile(name="cpu", min_memory_gb=8)
NOW = 100.0
"""Monotonic seconds at which the sample is looked at; its nodes registered at zero."""


def sample_catalog() -> Catalog:
    return a_catalog(
        a_model("gemma", aliases=("small",), replicas=2, profiles=(PROFILE,)),
        a_model("qwen", profiles=(a_profile(name="big", min_memory_gb=100),)),
        a_model("resting", replicas=0),
    )


def sample_fleet() -> Fleet:
    """`big` is well and serves, `old` says next to nothing, `small` fell silent 80 s ago."""
    fleet = a_fleet(_big(), _old(), _small())
    failed = a_shard(
        "gemma",
        1,
        phase=Phase.FAILED,
        fingerprint="0123456789abcdef",
        port=None,
        since_s=AT.timestamp() + NOW - 3,
        reason="cannot open /srv/models/gemma.gguf on small: No such file or directory",
        exit_status=-9,
        tail=("loading model", "error: \x1b[31mno such file\x1b[0m"),
    )
    fleet = shard_reported(fleet, "small", failed, connection=3, now=NOW - 3)
    use = ShardUse(shard="gemma.0.0", memory_bytes=3 * GIB, peak_bytes=4 * GIB)
    for number, node, said in ((1, "big", Beat(uses=(use,))), (2, "old", Beat())):
        fleet = heard(fleet, node, connection=number, now=NOW - 2, at=AT, said=said)
    return aged(fleet, now=NOW, at=AT, unreachable_after_s=15, lost_after_s=60)


def _big() -> Introduction:
    ready = a_shard(
        "gemma",
        0,
        fingerprint=PROFILE.fingerprint(),
        since_s=AT.timestamp() - 7200,
        pid=4711,
        min_memory_gb=8,
    )
    machine = Machine(
        hostname="big",
        os="Debian GNU/Linux 12",
        kernel="6.1.0",
        processor=Processor(model="EPYC", architecture="x86_64", cores=32, vector=("avx2", "avx512f")),
        memory=Memory(total_bytes=64 * GIB, available_bytes=48 * GIB),
        filesystems=(
            Filesystem(mount="/", kind="ext4", total_bytes=100 * GIB, free_bytes=40 * GIB, holds=("state",)),
            Filesystem(mount="/srv", kind="nfs4", total_bytes=900 * GIB, free_bytes=9 * GIB, shared=True),
        ),
    )
    said = an_introduction("big", machine=machine, shards=(ready,), labels={"rack": "b2"}, version="0.1.0")
    return replace(said, address="10.0.0.1")


def _old() -> Introduction:
    return replace(an_introduction("old", machine=Machine(), engines=None), address="10.0.0.2")


def _small() -> Introduction:
    machine = Machine(
        processor=Processor(architecture="x86_64", cores=4, vector=("sse4_2",)),
        memory=Memory(total_bytes=8 * GIB, available_bytes=GIB),
    )
    broken = EngineInstall(
        engine="llama.cpp",
        form="llama-server",
        path="/usr/bin/llama-server",
        problem="libgomp.so.1 is missing",
    )
    return replace(an_introduction("small", machine=machine, engines=(LLAMA, broken)), address="10.0.0.3")
