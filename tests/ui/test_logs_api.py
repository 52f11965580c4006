"""GET /nodes/{id}/logs: the newest lines, and every way in which there are none."""

from collections.abc import Iterator
from typing import Any

import pytest
from fakes.fleets import a_fleet
from fakes.nodes import an_introduction
from fakes.operations import FakeOperations
from litestar.testing import TestClient

from llmgw.core.accounts.access import Denied, KeyRecord, Scope, find_key
from llmgw.core.fleet.logs import LogEvent, LogTail
from llmgw.ui.app import admin_app, client_app

Client = TestClient[Any]
LINES = LogTail(lines=("one", "two"), sources=("agent", "gemma.0.0"))


@pytest.fixture
def operations() -> FakeOperations:
    made = FakeOperations(fleet=a_fleet(an_introduction("n1"), an_introduction("gpu-07.rack:b2")))
    made.logs.tails["agent"] = LINES
    return made


@pytest.fixture
def admin(operations: FakeOperations) -> Iterator[Client]:
    with TestClient(admin_app(operations), base_url="http://127.0.0.1:8081") as client:
        yield client


def test_lines_come_with_their_source_and_all_sources(admin: Client) -> None:
    answer = admin.get("/api/v1/nodes/n1/logs")

    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.json() == {
        "node": "n1",
        "source": "agent",
        "lines": ["one", "two"],
        "sources": ["agent", "gemma.0.0"],
    }


@pytest.mark.parametrize(
    ("query", "lines"),
    [
        ("", 300),
        ("?lines=", 300),
        ("?lines=junk", 300),
        ("?lines=1e3", 300),
        ("?lines=-4", 1),
        ("?lines=0", 1),
        ("?lines=99999999999999999999", 2000),
        ("?lines=17", 17),
    ],
)
def test_the_number_of_lines_is_what_was_asked_within_bounds_and_300_for_junk(
    admin: Client, operations: FakeOperations, query: str, lines: int
) -> None:
    admin.get(f"/api/v1/nodes/n1/logs{query}")

    assert operations.logs.asked == [("n1", "agent", lines, None)]


def test_a_node_that_nobody_knows_is_not_found(admin: Client) -> None:
    for path in ("logs", "logs/follow"):
        answer = admin.get(f"/api/v1/nodes/n11/{path}")

        assert answer.status_code == 404
        message = answer.json()["error"]["message"]
        assert message == "no node called 'n11' has a stream to this server; did you mean 'n1'?"


def test_a_node_that_is_known_from_before_is_asked_for_all_the_same(
    admin: Client, operations: FakeOperations
) -> None:
    operations.absent = ("away",)
    operations.logs.tails["agent"] = LogTail(error="no node called 'away' has a stream to this server")

    answer = admin.get("/api/v1/nodes/away/logs")

    assert answer.status_code == 502
    assert answer.json()["sources"] == ["agent"]


def test_where_there_is_nothing_to_show_the_error_is_in_the_body(admin: Client) -> None:
    answer = admin.get("/api/v1/nodes/n1/logs?source=NOPE")

    assert answer.status_code == 502
    assert answer.json() == {
        "node": "n1",
        "source": "NOPE",
        "lines": [],
        "sources": ["agent"],
        "error": "no log source 'NOPE' on this node; it has: agent",
    }


@pytest.mark.parametrize("path", ["gpu-07.rack:b2", "gpu-07.rack%3Ab2"])
def test_a_node_may_have_dots_and_colons_in_its_name(admin: Client, path: str) -> None:
    assert admin.get(f"/api/v1/nodes/{path}/logs").json()["node"] == "gpu-07.rack:b2"


def test_a_followed_source_is_a_stream_of_events(admin: Client, operations: FakeOperations) -> None:
    operations.logs.events.put_nowait(LogEvent(lines=("<script>",), cursor="c:1"))
    operations.logs.events.put_nowait(LogEvent(ended=True))

    answer = admin.get("/api/v1/nodes/n1/logs/follow?source=gemma.0.0&lines=5")

    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["cache-control"] == "no-store"
    assert "id: c:1\ndata: " in answer.text
    assert "\nevent: end\n" in answer.text
    assert operations.logs.asked == [("n1", "gemma.0.0", 5, None)]
    assert operations.logs.following == 0


def test_where_to_go_on_is_what_the_browser_says_before_what_the_address_says(
    admin: Client, operations: FakeOperations
) -> None:
    for _ in range(2):
        operations.logs.events.put_nowait(LogEvent(ended=True))

    admin.get("/api/v1/nodes/n1/logs/follow?cursor=c:1")
    admin.get("/api/v1/nodes/n1/logs/follow?cursor=c:1", headers={"last-event-id": "c:2"})

    assert [asked[3] for asked in operations.logs.asked] == ["c:1", "c:2"]


@pytest.mark.parametrize("path", ["logs", "logs/follow"])
async def test_the_client_port_wants_an_admin_key(operations: FakeOperations, path: str) -> None:
    def find_admin_key(key: bytes | None) -> KeyRecord | Denied:
        return find_key({record.digest: record for record in operations.records}, key, operations.clock.at())

    made = {
        scope: await operations.create_key("k", scope=scope, models=None, expires_at=None) for scope in Scope
    }
    operations.logs.events.put_nowait(LogEvent(ended=True))
    with TestClient(client_app(operations, find_admin_key=find_admin_key)) as outside:
        url = f"/api/v1/nodes/n1/{path}"
        statuses = [
            outside.get(url, headers=headers).status_code
            for headers in (
                {},
                {"authorization": f"Bearer {made[Scope.INFERENCE].key}"},
                {"authorization": f"Bearer {made[Scope.ADMIN].key}"},
            )
        ]

    assert statuses == [401, 403, 200]


async def test_a_key_that_is_revoked_ends_what_it_opened(operations: FakeOperations) -> None:
    made = await operations.create_key("k", scope=Scope.ADMIN, models=None, expires_at=None)
    # The key opens the door once, and is found revoked when the first line is about to be sent.
    answers: list[KeyRecord | Denied] = [made.record, Denied("invalid_api_key", "it was revoked")]
    operations.logs.events.put_nowait(LogEvent(lines=("not for everybody",)))

    with TestClient(client_app(operations, find_admin_key=lambda key: answers.pop(0))) as outside:
        answer = outside.get("/api/v1/nodes/n1/logs/follow", headers={"authorization": f"Bearer {made.key}"})

    assert answer.status_code == 200
    assert answer.text == "retry: 1000\n\n"
    assert operations.logs.following == 0
