"""Pages of nodes that say next to nothing, and of nodes that mean harm: what agents say comes from elsewhere."""

from collections.abc import Iterator
from datetime import timedelta
from html.parser import HTMLParser
from typing import Any

import pytest
from fakes.fleets import AT, a_fleet
from fakes.hostile import HURT, hostile
from fakes.nodes import a_shard
from fakes.operations import FakeOperations
from fakes.sample_fleet import NOW, sample_catalog, sample_fleet
from litestar.testing import TestClient
from msgspec.structs import replace

from llmgw.core.fleet.events import NodeEvent
from llmgw.core.fleet.logs import LogTail
from llmgw.core.fleet.shards import Phase
from llmgw.core.fleet.silence import Alarm
from llmgw.core.fleet.snapshot import Fleet, Introduction
from llmgw.ui.app import admin_app

pytestmark = pytest.mark.slow

Client = TestClient[Any]

PATHS = (
    "/",
    "/nodes/n1",
    "/nodes/n1/logs",
    "/nodes/n1/forget",
    "/models",
    "/models/gemma",
    "/models/qwen",
    "/replicas",
    "/weights",
    "/weights/collect",
    "/alarm",
)


class Running(HTMLParser):
    """What of a page could run: elements and attributes that the templates themselves never have."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        if tag == "script" and not (named.get("src") or "").startswith("/static/page."):
            self.found.append(f"{tag} {named}")
        if tag == "img" and not (named.get("src") or "").startswith("/static/mark."):
            self.found.append(f"{tag} {named}")
        self.found += [f"{name} of {tag}" for name in named if name.startswith("on")]


def opened(fleet: Fleet) -> FakeOperations:
    operations = FakeOperations(sample_catalog(), fleet)
    operations.clock.advance(NOW)
    operations.logs.tails["agent"] = LogTail(lines=("one line",), sources=("agent",))
    return operations


@pytest.fixture
def operations() -> FakeOperations:
    return opened(Fleet())


@pytest.fixture
def admin(operations: FakeOperations) -> Iterator[Client]:
    with TestClient(admin_app(operations), base_url="http://127.0.0.1:8081") as client:
        client.headers["accept"] = "text/html"
        yield client


@pytest.mark.parametrize("path", PATHS)
def test_every_page_can_show_a_node_that_only_said_who_it_is(
    admin: Client, operations: FakeOperations, path: str
) -> None:
    operations.observed = a_fleet(Introduction(node="n1", address="10.0.0.7"))

    assert admin.get(path).status_code == 200


@pytest.mark.parametrize("phase", list(Phase))
def test_every_page_can_show_a_shard_of_which_nothing_but_its_phase_is_known(
    admin: Client, operations: FakeOperations, phase: Phase
) -> None:
    bare = replace(a_shard(phase=phase), profile=None, engine=None, port=None)
    operations.observed = a_fleet(Introduction(node="n1", address="10.0.0.7", shards=(bare,)))

    assert {path: admin.get(path).status_code for path in PATHS} == dict.fromkeys(PATHS, 200)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("named", ["big", "small", "old"])
def test_nothing_that_an_agent_says_is_more_than_text(
    admin: Client, operations: FakeOperations, named: str, path: str
) -> None:
    node = sample_fleet().nodes[named]
    harmful = replace(hostile(node), id="n1")
    operations.observed = Fleet(nodes={"n1": harmful})
    operations.upkeep.known["n1"] = (
        NodeEvent(at=AT + timedelta(seconds=1), node="n1", kind=HURT, text=HURT),
    )
    operations.logs.tails["agent"] = LogTail(lines=(HURT,), sources=("agent", HURT), error=HURT)
    operations.alarm = Alarm(since=AT, nodes=("n1", HURT), fleet=3)

    answer = admin.get(path)

    assert answer.status_code == 200
    assert Running(answer.text).found == []


def test_harm_is_shown_as_the_text_that_it_is(admin: Client, operations: FakeOperations) -> None:
    node = sample_fleet().nodes["big"]
    operations.observed = Fleet(nodes={"n1": replace(hostile(node), id="n1", shards={})})

    shown = admin.get("/nodes/n1").text

    assert shown.count("&lt;script&gt;window.hurt=1&lt;/script&gt;") > 5
