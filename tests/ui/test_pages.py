import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import pytest
import yaml
from fakes.catalogs import a_catalog, a_model, a_profile
from fakes.fleets import AT, a_fleet
from fakes.nodes import a_shard, an_introduction
from fakes.operations import FakeOperations
from fakes.sample_fleet import NOW, sample_catalog, sample_fleet
from litestar.testing import TestClient

from llmgw.core.errors import Conflict
from llmgw.core.fleet.collect import Collected
from llmgw.core.fleet.events import NodeEvent
from llmgw.core.fleet.logs import LogEvent, LogTail
from llmgw.core.fleet.shards import Phase
from llmgw.core.fleet.silence import Alarm
from llmgw.core.fleet.weights import Holding, cache_name_of
from llmgw.core.units import GIB
from llmgw.ui.app import admin_app, client_app

Client = TestClient[Any]

PATHS = (
    "/",
    "/nodes/big",
    "/nodes/small",
    "/nodes/old",
    "/models",
    "/models/gemma",
    "/models/qwen",
    "/replicas",
    "/weights",
)
HTML = {"accept": "text/html,application/xhtml+xml"}


@pytest.fixture
def operations() -> FakeOperations:
    operations = FakeOperations(sample_catalog(), sample_fleet())
    operations.clock.advance(NOW)
    return operations


@pytest.fixture
def admin(operations: FakeOperations) -> Iterator[Client]:
    app = admin_app(operations)
    with TestClient(app, base_url="http://127.0.0.1:8081", raise_server_exceptions=False) as client:
        client.headers.update(HTML)
        client.follow_redirects = False
        yield client


@pytest.fixture
def outside(operations: FakeOperations) -> Iterator[Client]:
    app = client_app(operations, find_admin_key=lambda key: pytest.fail("no page asks for a key"))
    with TestClient(app, base_url="http://gw.example:8080") as client:
        client.headers.update(HTML)
        client.follow_redirects = False
        yield client


class Elements(HTMLParser):
    """All elements of a page, each with its attributes, and the ids that are there twice."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.found if name == tag]

    def ids(self) -> list[str]:
        return [id for _, attributes in self.found if (id := attributes.get("id"))]


def form(client: Client, path: str, **fields: str) -> Any:
    token = re.search(r'name="token" value="([^"]+)"', client.get("/").text)
    assert token is not None
    return client.post(path, data={"token": token[1]} | fields)


@pytest.mark.parametrize("path", PATHS)
def test_every_page_comes_with_headers_that_let_nothing_else_in(admin: Client, path: str) -> None:
    answer = admin.get(path)

    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["cache-control"] == "no-store"
    policy = answer.headers["content-security-policy"]
    assert policy == (
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    )
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "same-origin"


@pytest.mark.parametrize("path", [*PATHS, "/nodes/big/logs", "/nope", "/alarm"])
def test_no_page_has_a_style_or_a_script_of_its_own_or_an_id_twice(admin: Client, path: str) -> None:
    page = Elements(admin.get(path).text)

    assert not [attributes for _, attributes in page.found if "style" in attributes]
    assert not [name for _, attributes in page.found for name in attributes if name.startswith("on")]
    assert not page.of("style")
    assert [list(script) for script in page.of("script")] == [["src", "defer"]]
    assert len(page.ids()) == len(set(page.ids()))


@pytest.mark.parametrize("path", PATHS)
def test_every_page_of_nodes_and_models_is_below_admin_on_the_client_port(
    admin: Client, outside: Client, path: str
) -> None:
    answer = outside.get(f"/admin{path}".rstrip("/"))

    assert answer.status_code == 303
    assert answer.headers["location"].startswith(f"/login?next=/admin{path}".rstrip("/"))
    assert answer.headers["cache-control"] == "no-store"


def test_forms_and_streams_without_a_session_are_refused_and_not_sent_elsewhere(outside: Client) -> None:
    stream = {"accept": "text/event-stream"}

    assert outside.get("/admin/events?page=cluster", headers=stream).status_code == 401
    assert outside.get("/admin/nodes/big/logs/follow?source=agent", headers=stream).status_code == 401
    assert outside.post("/admin/nodes/big/state", data={"state": "draining"}).status_code == 401


def test_the_sheet_and_the_script_need_no_session_and_are_kept_for_ever(outside: Client) -> None:
    page = Elements(outside.get("/nope").text)
    sheet = next(str(link["href"]) for link in page.of("link") if link["rel"] == "stylesheet")

    answer = outside.get(sheet)

    assert sheet.startswith("/admin/static/page.")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/css; charset=utf-8"
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert outside.get("/admin/static/page.0000000000.css").status_code == 404


def test_the_cluster_page_shows_states_and_why_not(admin: Client) -> None:
    html = admin.get("/").text

    assert "no AVX2" in html
    assert "libgomp.so.1 is missing" in html
    assert "unreachable" in html
    assert "48.0 GiB" in html
    assert re.search(r'id="model:qwen".*model &#39;qwen&#39;', html, re.DOTALL)
    assert 'href="/nodes/small/logs"' in html


def test_the_unknown_is_a_dash_and_no_number(admin: Client) -> None:
    html = admin.get("/").text

    row = re.search(r'<tbody id="node:old".*?</tbody>', html, re.DOTALL)
    assert row is not None
    for label in ("GPUs free", "Memory free", "Disk free", "Engines"):
        assert f'data-label="{label}"><span class="unknown">-</span>' in row[0]


def test_what_nodes_and_catalogs_say_is_escaped_everywhere(admin: Client, operations: FakeOperations) -> None:
    evil = "<script>alert(1)</script>"
    said = an_introduction("n1", labels={"x": evil}, pool=evil, version=evil)
    operations.observed = a_fleet(said)
    operations.observed.nodes["n1"].shards["gemma.0.0"] = a_shard(
        phase=Phase.FAILED, reason=evil, tail=(evil,), profile=evil
    )
    operations.wanted = a_catalog(a_model(profiles=(a_profile(args=(evil,)),)))
    operations.upkeep.known["n1"] = (NodeEvent(at=AT, node="n1", kind="state", text=evil),)
    operations.logs.tails["agent"] = LogTail(lines=(evil,), sources=("agent", evil))

    for path in ("/", "/nodes/n1", "/models", "/models/gemma", "/replicas", "/weights", "/nodes/n1/logs"):
        html = admin.get(path).text
        assert evil not in html, path
    assert "&lt;script&gt;" in admin.get("/nodes/n1/logs").text


@pytest.mark.parametrize("node", ["gpu-07.rack:b+1", "a.b", "1"])
def test_nodes_of_any_name_have_their_pages(admin: Client, operations: FakeOperations, node: str) -> None:
    operations.observed = a_fleet(an_introduction(node))
    operations.logs.tails["agent"] = LogTail(lines=("a line",))

    page = Elements(admin.get("/").text)
    link = next(
        str(a["href"])
        for a in page.of("a")
        if str(a["href"]).startswith("/nodes/") and "logs" not in str(a["href"])
    )

    assert f"<h1>{node}</h1>" in admin.get(link).text
    assert "a line" in admin.get(f"{link}/logs").text


@pytest.mark.parametrize("model", ["org/name", "org/sub/name:tag+1", "roll"])
def test_models_of_any_name_have_their_pages_and_can_be_rolled(
    admin: Client, operations: FakeOperations, model: str
) -> None:
    operations.wanted = a_catalog(a_model(model))

    page = Elements(admin.get("/models").text)
    link = next(str(a["href"]) for a in page.of("a") if str(a["href"]).startswith("/models/"))
    answer = form(admin, f"{link}/roll", which="all")

    assert f"<h1>{model}</h1>" in admin.get(link).text
    assert (answer.status_code, answer.headers["location"]) == (303, link)
    assert operations.rolled == [(model, True)]


def test_a_models_page_has_its_entry_and_the_answer_of_every_node(admin: Client) -> None:
    html = admin.get("/models/qwen").text

    entry = re.search(r'<pre id="entry"[^>]*>(.*?)</pre>', html, re.DOTALL)
    assert entry is not None
    assert yaml.safe_load(entry[1])["profiles"][0]["min_memory_gb"] == 100
    assert "aliases" not in entry[1]
    for node in ("big", "old", "small"):
        assert f'href="/nodes/{node}"' in html
    assert "1 of 3 nodes fit" in html


def test_buttons_do_what_they_say_and_lead_back_to_the_page(
    admin: Client, operations: FakeOperations
) -> None:
    drained = form(admin, "/nodes/big/state", state="draining")
    restarted = form(admin, "/replicas/gemma.0/restart")
    forgotten = form(admin, "/nodes/small/forget")
    cleared = form(admin, "/alarm/clear")

    assert operations.upkeep.told == [
        ("state", "big", "draining"),
        ("restart", "gemma.0"),
        ("forget", "small"),
        ("clear",),
    ]
    answers = (drained, restarted, forgotten, cleared)
    assert [answer.status_code for answer in answers] == [303] * 4
    assert [answer.headers["location"] for answer in answers] == ["/nodes/big", "/replicas", "/", "/"]


@pytest.mark.parametrize(
    "path", ["/nodes/big/state", "/replicas/gemma.0/restart", "/models/gemma/roll", "/alarm/clear"]
)
def test_a_form_without_the_sessions_token_changes_nothing(
    admin: Client, operations: FakeOperations, path: str
) -> None:
    for fields in ({}, {"token": "guessed"}):
        answer = admin.post(path, data={"state": "draining"} | fields)
        assert answer.status_code == 403
        assert "load the page again" in answer.text
    assert operations.upkeep.told == []
    assert operations.rolled == []


def test_the_page_behind_a_form_shows_what_the_form_did(admin: Client, operations: FakeOperations) -> None:
    before = admin.get("/models").text

    operations.wanted = a_catalog(a_model("gemma"), a_model("org/late"))
    form(admin, "/models/gemma/roll", which="all")

    assert "org/late" not in before
    assert "org/late" in admin.get("/models").text


def test_every_button_of_a_page_sends_the_one_form_with_the_token(admin: Client) -> None:
    for path in ("/nodes/big", "/models/gemma", "/replicas"):
        page = Elements(admin.get(path).text)
        assert page.of("button"), path
        assert {button["form"] for button in page.of("button")} == {"act"}, path
        assert [form["id"] for form in page.of("form")] == ["act"]


def test_weights_that_nobody_wants_are_removed_after_a_look_at_them(
    admin: Client, operations: FakeOperations
) -> None:
    name = cache_name_of("hf://org/old/old.gguf") or ""
    held = Holding(path=f"/cache/{name}", source="hf://org/old/old.gguf", cache_name=name, size_bytes=3 * GIB)
    own = Holding(path="/srv/mine.gguf", size_bytes=GIB)
    operations.observed = a_fleet(an_introduction("n1", weights=(held, own)))
    operations.weights.outcome = (
        Collected(node="n1", removed=(name,), freed_bytes=3 * GIB),
        Collected(node="n2", error="n2 did not answer within 10 s"),
    )

    page, question = admin.get("/weights").text, admin.get("/weights/collect").text
    answer = form(admin, "/weights/collect", names=name)

    assert 'href="/weights/collect"' in page
    assert "/srv/mine.gguf" in page
    assert "/srv/mine.gguf" not in question
    assert f'name="names" value="{name}"' in question
    assert operations.weights.asked == [((name,), ())]
    assert "1 removed, 3.0 GiB freed" in answer.text
    assert "n2 did not answer within 10 s" in answer.text


def test_a_collection_of_nothing_asks_no_node(admin: Client, operations: FakeOperations) -> None:
    answer = form(admin, "/weights/collect")

    assert answer.status_code == 200
    assert operations.weights.asked == []
    assert "There is nothing that nobody wants" in admin.get("/weights/collect").text


def test_what_cannot_be_done_is_answered_with_a_page_that_says_why(
    admin: Client, operations: FakeOperations
) -> None:
    operations.upkeep.failure = Conflict("node 'big' is being drained already")

    answer = form(admin, "/nodes/big/state", state="draining")

    assert answer.status_code == 409
    assert "Node &#39;big&#39; is being drained already" in answer.text
    assert 'href="/replicas"' in answer.text


def test_what_is_not_there_is_said_with_the_nearest_name_and_ways_on(
    admin: Client, operations: FakeOperations
) -> None:
    operations.absent = ("away",)

    answers = {path: admin.get(path) for path in ("/nodes/bigg", "/models/gemna", "/nope", "/nodes/away")}

    assert {answer.status_code for answer in answers.values()} == {404}
    assert "did you mean &#39;big&#39;?" in answers["/nodes/bigg"].text
    assert "did you mean &#39;gemma&#39;?" in answers["/models/gemna"].text
    assert "has not registered since the server started" in answers["/nodes/away"].text
    assert all('href="/models"' in answer.text for answer in answers.values())


def test_programs_are_answered_in_the_shape_of_the_api(admin: Client) -> None:
    answer = admin.get("/nope", headers={"accept": "*/*"})

    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "unknown_url"


def test_a_fault_shows_an_id_and_the_log_has_the_detail(
    admin: Client, operations: FakeOperations, caplog: pytest.LogCaptureFixture
) -> None:
    operations.failure = RuntimeError("the secret detail")

    answer = admin.get("/")

    assert answer.status_code == 500
    assert "secret detail" not in answer.text
    shown = re.search(r"<code>([0-9a-f]{12})</code>", answer.text)
    assert shown is not None
    assert shown[1] in caplog.text
    assert "the secret detail" in caplog.text


def test_an_alarm_is_on_the_page_and_is_decided_on_one_of_its_own(
    admin: Client, operations: FakeOperations
) -> None:
    operations.alarm = Alarm(since=AT, nodes=("n1", "n2"), fleet=3)

    html, decision = admin.get("/").text, admin.get("/alarm").text

    assert 'role="alert"' in html
    assert 'href="/alarm"' in html
    assert "2 of 3 nodes fell silent" in decision
    assert 'formaction="/alarm/clear"' in decision
    assert 'formaction="/alarm/clear"' not in html


def test_forgetting_is_asked_for_once_more(admin: Client) -> None:
    page, question = admin.get("/nodes/small").text, admin.get("/nodes/small/forget").text

    assert 'formaction="/nodes/small/forget"' not in page
    assert 'href="/nodes/small/forget"' in page
    assert 'formaction="/nodes/small/forget"' in question


def test_a_node_is_offered_what_is_not_wanted_of_it_yet(admin: Client) -> None:
    values = {str(b.get("value")) for b in Elements(admin.get("/nodes/big").text).of("button")}

    assert {"cordoned", "draining"} <= values
    assert "ready" not in values


def test_logs_are_shown_with_their_sources_counts_and_loud_lines(
    admin: Client, operations: FakeOperations
) -> None:
    operations.logs.tails["gemma.1.0"] = LogTail(
        lines=("loading", "error: no such file"),
        sources=("agent", "gemma.1.0", "gemma.1.0@crash", "install:vllm"),
    )

    html = admin.get("/nodes/small/logs?source=gemma.1.0&lines=100").text

    assert '<span>loading\n</span><span class="loud">error: no such file\n</span>' in html
    assert operations.logs.asked == [("small", "gemma.1.0", 100, None)]
    assert 'href="?source=gemma.1.0%40crash&amp;lines=100"' in html
    assert "gemma.1.0 (first crash)" in html
    assert "installing vllm" in html
    assert 'href="?source=gemma.1.0&amp;lines=2000"' in html
    assert re.search(r'source=gemma.1.0&amp;lines=100" aria-current="true" class="failed"', html)


@pytest.mark.parametrize(("given", "asked"), [("", 300), ("junk", 300), ("99999", 2000), ("-5", 1)])
def test_any_number_of_lines_may_be_asked_for(
    admin: Client, operations: FakeOperations, given: str, asked: int
) -> None:
    operations.logs.tails["agent"] = LogTail(lines=("x",))

    admin.get(f"/nodes/big/logs?lines={given}")

    assert operations.logs.asked == [("big", "agent", asked, None)]


def test_without_scripts_a_followed_log_loads_itself_anew_and_can_be_made_to_stand(
    admin: Client, operations: FakeOperations
) -> None:
    operations.logs.tails["agent"] = LogTail(lines=("x",))

    follows, stands = admin.get("/nodes/big/logs").text, admin.get("/nodes/big/logs?follow=0").text

    refresh = '<noscript><meta http-equiv="refresh" content="5"></noscript>'
    assert refresh in follows
    assert 'data-follow="/nodes/big/logs/follow?source=agent&amp;lines=300"' in follows
    assert "follow=0" in follows
    assert refresh not in stands
    assert "data-follow" not in stands


@pytest.mark.parametrize(
    ("query", "headers", "cursor"),
    [
        ("", {}, None),
        ("&cursor=7.1", {}, "7.1"),
        ("&cursor=7.1", {"last-event-id": "9.1"}, "9.1"),
    ],
)
def test_a_followed_log_goes_on_where_the_viewer_was(
    admin: Client, operations: FakeOperations, query: str, headers: dict[str, str], cursor: str | None
) -> None:
    operations.logs.events.put_nowait(LogEvent(lines=("<b>",), cursor="9.2", ended=True))

    answer = admin.get(f"/nodes/big/logs/follow?source=agent&lines=100{query}", headers=headers)

    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["cache-control"] == "no-store"
    assert '"lines":["<b>"]' in answer.text
    assert operations.logs.asked == [("big", "agent", 100, cursor)]
    assert operations.logs.following == 0


def test_a_node_that_does_not_answer_has_a_page_that_says_so(
    admin: Client, operations: FakeOperations
) -> None:
    operations.logs.tails["agent"] = LogTail(
        error="the agent of big did not answer within 10 s; it may be too old"
    )
    operations.absent = ("away",)

    silent, absent = admin.get("/nodes/big/logs"), admin.get("/nodes/away/logs")

    assert silent.status_code == absent.status_code == 200
    assert "did not answer within 10 s; it may be too old" in silent.text
    assert 'href="/nodes/away"' not in absent.text
    assert admin.get("/nodes/nobody/logs").status_code == 404


def test_a_page_names_its_stream_and_the_revision_that_it_shows(admin: Client) -> None:
    body = Elements(admin.get("/nodes/big").text).of("body")[0]

    assert body["data-events"] == "/events?page=node&name=big"
    assert re.fullmatch(r"[0-9a-f]{12}\.1", str(body["data-revision"]))


def test_a_stream_of_a_page_that_is_none_is_refused(admin: Client) -> None:
    answer = admin.get("/events?page=nothing")

    assert answer.status_code == 404
    assert "cluster" in answer.text
