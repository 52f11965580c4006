"""What an agent says that cannot be true becomes unknown; what can be true stays."""

import math
from typing import Any

import pytest
from fakes.fleets import AT, a_fleet
from fakes.nodes import a_shard, an_introduction
from hypothesis import given
from hypothesis import strategies as st

from llmgw.core.fleet.sanity import sane
from llmgw.core.fleet.shards import Phase
from llmgw.core.fleet.snapshot import shard_reported
from llmgw.core.fleet.weights import Progress


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
