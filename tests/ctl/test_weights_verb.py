import json
from collections.abc import Callable

from click.testing import Result
from fakes.catalogs import a_catalog, a_model, a_profile
from fakes.fleets import a_fleet
from fakes.nodes import a_shard, an_introduction
from fakes.operations import FakeOperations

from llmgw.core.fleet.collect import Collected
from llmgw.core.fleet.shards import Phase
from llmgw.core.fleet.weights import Holding, Progress, cache_name_of
from llmgw.core.units import GIB, MIB

Ctl = Callable[..., Result]
WANTED, OTHER = "hf://org/repo/wanted.gguf", "hf://org/repo/other.gguf"
NAME = cache_name_of(OTHER) or ""


def hold(operations: FakeOperations) -> None:
    """Let a node hold a wanted file, an unwanted one and an operator's own."""
    held = (
        Holding(path="/c/w", source=WANTED, cache_name=cache_name_of(WANTED), size_bytes=GIB),
        Holding(path="/c/o", source=OTHER, cache_name=NAME, size_bytes=2 * GIB),
        Holding(path="/mnt/own.gguf", size_bytes=3 * GIB),
    )
    operations.wanted = a_catalog(a_model(profiles=(a_profile(weights=WANTED),)))
    operations.observed = a_fleet(an_introduction("n1", weights=held), an_introduction("n2"))


def test_what_nobody_wants_is_listed_with_node_size_and_why(ctl: Ctl, operations: FakeOperations) -> None:
    hold(operations)

    shown = ctl("weights")

    assert shown.exit_code == 0
    assert shown.stdout.splitlines() == [
        "NODE  SIZE     WEIGHTS                   NAME                                   WHY",
        f"n1    2.0 GiB  {OTHER}  {NAME}  no model of the catalog wants it",
        f"n1    3.0 GiB  /mnt/own.gguf             {'-':<37}  an operator's own; llmgw removes only what it fetched",
        "wanted: 1, 1.0 GiB; to remove: 1, 2.0 GiB; 'llmgw ctl weights --collect' does",
        "nodes that do not say what they hold:",
        "  n2",
    ]


def test_all_lists_what_is_wanted_too(ctl: Ctl, operations: FakeOperations) -> None:
    hold(operations)

    assert "wanted by gemma" in ctl("weights", "--all").stdout
    assert "wanted by gemma" not in ctl("weights").stdout


def test_collect_shows_what_went_and_ends_well(ctl: Ctl, operations: FakeOperations) -> None:
    operations.weights.outcome = (Collected(node="n1", removed=(NAME,), freed_bytes=2 * GIB),)

    shown = ctl("weights", "--collect")

    assert shown.exit_code == 0
    assert shown.stdout == f"n1: removed {NAME}\nfreed 2.0 GiB\n"
    assert operations.weights.asked == [((), ())]


def test_a_refusal_is_shown_in_the_nodes_words_and_ends_with_one(
    ctl: Ctl, operations: FakeOperations
) -> None:
    operations.weights.outcome = (
        Collected(node="n1", removed=(NAME,), freed_bytes=GIB, refused={"..": "it is a path"}),
        Collected(node="n2", error="no node called 'n2' has a stream to this server"),
        Collected(node=None, refused={"x": "wanted by gemma"}),
    )

    shown = ctl("weights", "--collect", "..", "--node", "n1")

    assert shown.exit_code == 1
    assert shown.stdout.splitlines() == [
        f"n1: removed {NAME}",
        "n1: kept ..: it is a path",
        "n2: no node called 'n2' has a stream to this server",
        "not asked: kept x: wanted by gemma",
        "freed 1.0 GiB",
    ]
    assert operations.weights.asked == [(("..",), ("n1",))]


def test_names_without_collect_are_a_slip(ctl: Ctl, operations: FakeOperations) -> None:
    assert ctl("weights", "x").exit_code == 2


def test_json_is_the_apis_own(ctl: Ctl, operations: FakeOperations) -> None:
    hold(operations)

    found = json.loads(ctl("weights", "--json").stdout)

    assert found["removable_bytes"] == 2 * GIB
    assert [one["removable"] for one in found["weights"]] == [False, True, False]


def test_a_replica_that_fetches_has_a_line_with_bytes_rate_and_the_time_that_is_left(
    ctl: Ctl, operations: FakeOperations
) -> None:
    progress = Progress(cache_name=NAME, done_bytes=GIB, total_bytes=4 * GIB, rate=64.0 * MIB)
    shard = a_shard(phase=Phase.FETCHING, progress=progress, port=None)
    other = a_shard(
        ordinal=1, phase=Phase.FETCHING, progress=Progress(cache_name=NAME, done_bytes=GIB), port=None
    )
    operations.wanted = a_catalog(a_model())
    operations.observed = a_fleet(an_introduction("n1", shards=(shard, other)))

    lines = ctl("replicas").stdout.splitlines()
    explained = ctl("explain", "gemma").stdout

    assert lines[1].startswith("gemma.0 ")
    assert lines[2] == "  fetching: 1.0 GiB of 4.0 GiB, 64.0 MiB/s, 48 s left"
    assert lines[4] == "  fetching: 1.0 GiB"
    assert "fetching, 1.0 GiB of 4.0 GiB, 64.0 MiB/s, 48 s left" in explained
