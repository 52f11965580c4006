from datetime import UTC, datetime

import pytest
from fakes.catalogs import a_catalog, a_model, a_profile
from fakes.fleets import AT, a_fleet
from fakes.nodes import a_shard, an_introduction
from fakes.sample_fleet import NOW, sample_catalog, sample_fleet
from msgspec.structs import replace

from llmgw.core.fleet.catalog import Catalog
from llmgw.core.fleet.collect import stocks
from llmgw.core.fleet.hardware import Fabric, Gpu, GpuProcess, Machine
from llmgw.core.fleet.orders import Orders
from llmgw.core.fleet.shards import Claim, Phase
from llmgw.core.fleet.snapshot import Fleet, Introduction
from llmgw.core.fleet.weights import Holding, Progress
from llmgw.core.placement.explain import explain
from llmgw.core.placement.measured import UNKNOWN_MEMORY
from llmgw.core.units import GIB, MIB
from llmgw.ui.present.amounts import amount, used_percent
from llmgw.ui.present.cluster import ClusterView, cluster_view
from llmgw.ui.present.downloads import download
from llmgw.ui.present.fabrics import fabric_cards
from llmgw.ui.present.gpus import gpu_strip
from llmgw.ui.present.log_page import lines_of, source_links
from llmgw.ui.present.model_page import answer_rows, catalog_entry, need_rows, verdicts
from llmgw.ui.present.model_rows import model_rows
from llmgw.ui.present.models import model_views
from llmgw.ui.present.node_page import node_page
from llmgw.ui.present.node_rows import node_row
from llmgw.ui.present.replica_rows import failed_first, replica_rows
from llmgw.ui.present.status import status_view
from llmgw.ui.present.weight_rows import collected_rows, collection, weight_figures, weight_rows


def gpu(number: int, *, free_gb: float | None = 80, **given: object) -> Gpu:
    free = None if free_gb is None else int(free_gb * GIB)
    return Gpu(
        **{"uuid": f"GPU-{number}", "total_bytes": 80 * GIB, "free_bytes": free, "gpu_class": "h100"} | given
    )  # type: ignore[arg-type]


def a_gpu_fleet(*gpus: Gpu) -> Fleet:
    return a_fleet(an_introduction("n1", machine=Machine(gpus=gpus)))


def cluster(catalog: Catalog, fleet: Fleet) -> ClusterView:
    status = status_view(
        catalog,
        fleet,
        version="1",
        epoch=1,
        started_at=AT,
        hold=None,
        catalog_problem=None,
        now=NOW,
        at=AT,
    )
    models = model_views(catalog, fleet, hold=None, now=NOW, at=AT)
    return cluster_view(catalog, fleet, status, models, orders=Orders(), now=NOW, at=AT)


@pytest.mark.parametrize(
    ("free", "total", "percent"),
    [
        (0, 100, 100),
        (100, 100, 0),
        (37, 100, 63),
        (None, 100, None),
        (5, None, None),
        (5, 0, None),
        (200, 100, 0),
    ],
)
def test_a_bar_shows_whole_percents_of_what_is_known(
    free: int | None, total: int | None, percent: int | None
) -> None:
    assert used_percent(free, total) == percent


def test_the_unknown_is_no_number() -> None:
    assert amount(None, 4 * GIB) == amount(None, 4 * GIB)
    assert (amount(None, 4 * GIB).free, amount(None, 4 * GIB).total) == ("-", "4.0 GiB")


def test_a_gpu_is_free_when_nothing_holds_it_and_it_may_be_used() -> None:
    fleet = a_gpu_fleet(
        gpu(0), gpu(1, free_gb=79), gpu(2, free_gb=20), gpu(3, problem="Xid 79"), gpu(4), gpu(5, free_gb=None)
    )
    node = replace(
        fleet.nodes["n1"], shards={"gemma.0.0": a_shard(claim=Claim(gpus=("GPU-4",), gpu_bytes=GIB))}
    )

    strip = gpu_strip(node)

    assert strip is not None
    assert [cell.state for cell in strip.cells] == ["free", "free", "taken", "broken", "ours", "free"]
    assert (strip.free, strip.total, strip.kinds) == (3, 6, "6 × h100")


def test_gpus_that_nobody_told_of_are_unknown_and_none_are_none() -> None:
    unknown, none = (
        a_fleet(an_introduction("n", machine=Machine(gpus=gpus))).nodes["n"] for gpus in (None, ())
    )

    assert gpu_strip(unknown) is None
    assert (strip := gpu_strip(none)) is not None
    assert (strip.cells, strip.total) == ((), 0)


def test_a_node_that_was_heard_lately_looks_the_same_with_every_sign_of_life() -> None:
    node = sample_fleet().nodes["big"]

    now = node_row(replace(node, heard_now=90.0, seen_at=AT), now=100)
    later = node_row(replace(node, heard_now=98.0, seen_at=datetime(2031, 1, 1, tzinfo=UTC)), now=100)
    away = node_row(replace(node, heard_now=80.0), now=100)

    assert now == later
    assert now.seen is None
    assert away.seen == node.seen_at


def test_a_node_page_has_all_that_was_said_and_the_latest_event_first() -> None:
    fleet = sample_fleet()

    page = node_page(fleet.nodes["big"], sample_catalog(), fleet, (), orders=Orders(), now=NOW, at=AT)
    old = node_page(fleet.nodes["old"], sample_catalog(), fleet, (), orders=Orders(), now=NOW, at=AT)

    facts = {fact.name: fact.value for fact in page.facts}
    assert (facts["Processor"], facts["Vectors"]) == ("EPYC, 32 cores", "avx2 avx512f")
    assert page.mounts is not None
    assert [(mount.mount, mount.shared) for mount in page.mounts] == [("/", False), ("/srv", True)]
    assert [row.id for row in page.replicas] == ["gemma.0"]
    assert old.mounts is old.engines is old.networks is old.weights is old.gpus.gpus is None
    assert {fact.value for fact in old.facts if fact.name not in ("Address", "Pool")} == {"-"}


def test_the_cluster_is_counted_and_what_is_short_is_poor() -> None:
    view = cluster(sample_catalog(), sample_fleet())

    counted = {figure.name: (figure.value, figure.of, figure.state) for figure in view.figures}
    assert counted["nodes ready"] == ("2", "3", "poor")
    assert counted["models served"] == ("1", "2", "poor")
    assert counted["replicas ready"] == ("1", "3", "poor")
    assert counted["GPUs free"] == ("-", None, "plain")
    assert counted["memory free"] == ("49.0 GiB", "72.0 GiB", "plain")


def test_only_the_first_problems_are_shown_and_the_rest_is_kept_beside() -> None:
    fleet = a_fleet(*(an_introduction(f"n{number}", engines=()) for number in range(9)))

    notices = cluster(Catalog(), fleet).notices

    assert (len(notices.problems), len(notices.more)) == (5, 4)


def test_failed_replicas_come_first_and_say_why() -> None:
    rows = failed_first(replica_rows(sample_catalog(), sample_fleet(), now=NOW, at=AT, orders=Orders()))

    assert [(row.id, row.phase) for row in rows] == [("gemma.1", "failed"), ("gemma.0", "ready")]
    assert rows[0].failure is not None
    assert rows[0].failure.startswith("cannot open /srv/models/gemma.gguf")
    assert "(signal 9)" in rows[0].failure
    assert any("its node is unreachable" in note for note in rows[0].notes)


def test_a_download_is_told_with_what_is_left_and_no_percentage_is_made_up() -> None:
    known = download(Progress(cache_name="x", done_bytes=10 * GIB, total_bytes=40 * GIB, rate=100 * MIB))
    unknown = download(Progress(cache_name="x", done_bytes=10 * GIB))
    done = download(Progress(cache_name="x", done_bytes=4, total_bytes=4, rate=0.0))

    assert (known.percent, known.text) == (25, "10.0 GiB of 40.0 GiB, 100.0 MiB/s, 5 min left")
    assert (unknown.percent, unknown.text) == (None, "10.0 GiB")
    assert (done.percent, done.text) == (100, "4 B of 4 B, 0 B/s")


def test_a_model_is_ready_short_starting_down_or_resting() -> None:
    resting = a_model("resting", replicas=0)
    catalog = a_catalog(a_model("gemma", replicas=2), a_model("coming"), a_model("other"), resting)
    fleet = a_fleet(an_introduction("n1", shards=(a_shard("gemma"), a_shard("coming", phase=Phase.FETCHING))))

    rows = model_rows(model_views(catalog, fleet, hold=None, now=NOW, at=AT), fleet)

    assert [(row.name, row.state) for row in rows] == [
        ("gemma", "short"),
        ("coming", "starting"),
        ("other", "down"),
        ("resting", "resting"),
    ]
    assert [row.why_not is None for row in rows] == [True, False, False, True]


def test_a_catalog_entry_leaves_out_what_has_its_default() -> None:
    model = a_model("org/m", replicas=3, profiles=(a_profile(context=4096, args=("--x",), env={"A": "b"}),))

    assert catalog_entry(model) == {
        "name": "org/m",
        "replicas": 3,
        "profiles": [
            {
                "name": "cpu",
                "engine": "llama.cpp",
                "weights": "file:///srv/models/gemma.gguf",
                "context": 4096,
                "args": ["--x"],
                "env": {"A": "b"},
            }
        ],
    }


def test_every_node_answers_and_those_that_fit_come_first() -> None:
    model = sample_catalog().models[1]
    explanation = explain(model, sample_fleet(), now=NOW, at=AT)

    rows = answer_rows(explanation)
    counted = verdicts(explanation, rows)

    assert [(row.node, row.rule) for row in rows] == [("old", None), ("big", "memory"), ("small", "state")]
    assert (counted.fitting, counted.asked) == (1, 3)
    assert counted.next is not None
    assert counted.next.startswith("old: ")
    assert set(counted.refusals) == {"1 × memory (big)", "1 × state (big)"}
    assert [need.asks for need in need_rows(explanation)] == [("100.0 GiB of main memory",)]


def test_main_memory_that_nobody_knows_is_said_to_be_unknown() -> None:
    model = a_model("new", profiles=(a_profile(),))

    [need] = need_rows(explain(model, sample_fleet(), now=NOW, at=AT))

    assert need.asks == ("nothing",)
    assert need.learned == UNKNOWN_MEMORY


def test_a_fabric_shows_who_is_on_it_who_is_not_and_what_can_be_reached() -> None:
    def node(name: str, *, up: bool, holds: tuple[Holding, ...]) -> Introduction:
        fabric = Fabric(
            name="ib-a", adapter="mlx5_0", attached=up, rate="400 Gb/sec", problem=None if up else "DOWN"
        )
        return an_introduction(name, machine=Machine(fabrics=(fabric,)), weights=holds)

    shared = Holding(
        path="/m/a.gguf",
        source="file:///m/a.gguf",
        size_bytes=GIB,
        mount="/m",
        device="filer:/m",
        shared=True,
    )
    local = Holding(path="/w/b.gguf", source="hf://o/r/b.gguf", cache_name="b", size_bytes=2 * GIB)
    half = Holding(path="/w/c.gguf", source="hf://o/r/c.gguf", cache_name="c", complete=False)
    fleet = a_fleet(
        node("n1", up=True, holds=(shared, local, half)),
        node("n2", up=True, holds=(shared, local)),
        node("n3", up=False, holds=(local,)),
    )

    (card,) = fabric_cards(Catalog(), fleet)

    assert (card.name, card.rates, card.attached) == ("ib-a", "400 Gb/sec", ("n1", "n2"))
    assert card.troubles == ("n3: mlx5_0: DOWN",)
    assert card.weights is not None
    assert [(line.name, line.size, line.where) for line in card.weights] == [
        ("file:///m/a.gguf", "1.0 GiB", "shared on filer:/m (2 nodes)"),
        ("hf://o/r/b.gguf", "2.0 GiB", "on 2 nodes"),
    ]


def test_weights_are_wanted_unwanted_or_an_operators_own() -> None:
    source = "hf://org/repo/wanted.gguf"
    held = (
        Holding(path="/w/1", source=source, cache_name="1", size_bytes=GIB),
        Holding(path="/w/2", source="hf://org/repo/old.gguf", cache_name="2", size_bytes=2 * GIB),
        Holding(path="/srv/own.gguf", size_bytes=4 * GIB),
    )
    fleet = a_fleet(an_introduction("n1", weights=held), an_introduction("n2", weights=None))
    found = stocks(a_catalog(a_model(profiles=(a_profile(weights=source),))), fleet)

    rows = weight_rows(found)
    figures = weight_figures(found, ["n2"])

    assert [(row.name, row.state) for row in rows] == [
        ("hf://org/repo/old.gguf", "unwanted"),
        (source, "wanted"),
        ("/srv/own.gguf", "own"),
    ]
    assert (figures.wanted, figures.unwanted, figures.removable, figures.silent) == (
        "1.0 GiB",
        "2.0 GiB",
        1,
        ("n2",),
    )
    assert (collection(found).names, collection(found).size) == ("2", "2.0 GiB")
    assert collected_rows(()) == ()


def test_sources_of_logs_begin_with_the_agent_and_what_failed() -> None:
    fleet = a_fleet(an_introduction("n1", shards=(a_shard("a"), a_shard("z", phase=Phase.FAILED))))

    links = source_links(
        ("z.0.0", "a.0.0", "install:vllm", "z.0.0@crash", "fetch:abc"), "gone", fleet.nodes["n1"]
    )

    assert [(link.source, link.failed) for link in links] == [
        ("agent", False),
        ("z.0.0", True),
        ("z.0.0@crash", True),
        ("a.0.0", False),
        ("fetch:abc", False),
        ("gone", False),
        ("install:vllm", False),
    ]
    assert [link.label for link in links][-3:] == ["fetching abc", "gone", "installing vllm"]
    assert links[2].label == "z.0.0 (first crash)"


@pytest.mark.parametrize(
    ("text", "loud"),
    [
        ("llama_model_load: error loading model", True),
        ("CUDA Out Of Memory", True),
        ("Traceback (most recent call last):", True),
        ("0 errorless runs", False),
        ("terror", False),
        ("slot update_slots: id 0", False),
    ],
)
def test_a_line_that_speaks_of_a_failure_is_loud(text: str, loud: bool) -> None:
    assert [line.loud for line in lines_of([text])] == [loud]


def test_a_process_that_fills_a_gpu_is_named_on_the_nodes_page() -> None:
    foreign = (GpuProcess(pid=88, command="train.py", held_bytes=60 * GIB),)
    fleet = a_gpu_fleet(gpu(0, free_gb=20, foreign=foreign))

    page = node_page(fleet.nodes["n1"], Catalog(), fleet, (), orders=Orders(), now=0, at=AT)

    assert page.gpus.gpus is not None
    assert page.gpus.gpus[0].state == "taken"
    assert page.gpus.gpus[0].foreign is not None
    assert "train.py" in page.gpus.gpus[0].foreign[0]
    assert "88" in page.gpus.gpus[0].foreign[0]
