import logging
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest
from fakes.catalogs import catalog_data
from fakes.operations import FakeOperations
from fakes.sample_fleet import NOW, sample_catalog, sample_fleet
from litestar import Request
from litestar.testing import TestClient

from llmgw import __version__
from llmgw.core.accounts.access import Denied, KeyRecord, Scope, digest_of, find_key
from llmgw.core.errors import Conflict, LlmgwError, StoreFailed, Unreachable
from llmgw.core.fleet.catalog import read_catalog
from llmgw.core.fleet.events import NodeEvent
from llmgw.core.fleet.silence import Alarm
from llmgw.ui.api.doors import refuse_other_sites
from llmgw.ui.api.errors import STATUS_OF
from llmgw.ui.app import admin_app, client_app
from llmgw.ui.refusal import Refusal

Client = TestClient[Any]


@pytest.fixture
def operations() -> FakeOperations:
    operations = FakeOperations(sample_catalog(), sample_fleet())
    operations.clock.advance(NOW)
    return operations


@pytest.fixture
def admin(operations: FakeOperations) -> Iterator[Client]:
    # A fault is answered, as in production, and not raised into the test.
    with TestClient(
        admin_app(operations), base_url="http://127.0.0.1:8081", raise_server_exceptions=False
    ) as client:
        yield client


@pytest.fixture
def outside(operations: FakeOperations) -> Iterator[Client]:
    def find_admin_key(key: bytes | None) -> KeyRecord | Denied:
        keyring = {record.digest: record for record in operations.records}
        return find_key(keyring, key, operations.clock.at())

    app = client_app(operations, find_admin_key=find_admin_key)
    with TestClient(app, base_url="http://gw.example:8080") as client:
        yield client


def error(answer: Any) -> tuple[int, str]:
    body = answer.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"code", "message", "problems"}
    return answer.status_code, body["error"]["code"]


def test_health_is_told_without_asking_anything(admin: Client) -> None:
    answer = admin.get("/health")

    assert (answer.status_code, answer.json()) == (200, {"status": "ok", "version": __version__})


@pytest.mark.parametrize(
    "noun", ["status", "nodes", "nodes/big", "models", "replicas", "catalog", "keys", "alarm"]
)
def test_every_noun_can_be_read_and_is_never_cached(admin: Client, noun: str) -> None:
    answer = admin.get(f"/api/v1/{noun}")

    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-store"


def test_the_unknown_is_null(admin: Client) -> None:
    old = admin.get("/api/v1/nodes/old").json()

    assert old["memory_total_bytes"] is old["engines"] is old["cpu"]["cores"] is None
    assert old["labels"] == {}


def test_a_placement_is_explained(admin: Client) -> None:
    found = admin.get("/api/v1/explain-placement", params={"model": "qwen"}).json()

    assert (found["model"], found["wanted"], found["ready"]) == ("qwen", 1, 0)
    assert {one["node"]: one["fits"] for one in found["nodes"]} == {"big": False, "old": True, "small": False}


def test_a_model_must_be_named_and_known_to_be_explained(admin: Client) -> None:
    assert error(admin.get("/api/v1/explain-placement")) == (400, "bad_input")
    assert error(admin.get("/api/v1/explain-placement?model=none")) == (404, "not_found")


def test_an_apply_says_what_changed(admin: Client, operations: FakeOperations) -> None:
    body = {"catalog": catalog_data({"name": "new"}, {"name": "qwen"})}

    answer = admin.post("/api/v1/apply", json=body)

    assert answer.status_code == 200
    assert answer.json() == {
        "created": ["new"],
        "changed": ["qwen"],
        "unchanged": [],
        "kept": ["gemma", "resting"],
        "removed": [],
        "dry_run": False,
    }
    assert operations.wanted.model("new") is not None


def test_a_dry_run_changes_nothing(admin: Client, operations: FakeOperations) -> None:
    before = operations.wanted

    answer = admin.post("/api/v1/apply", json={"catalog": {"models": []}, "dry_run": True, "prune": True})

    assert answer.json()["removed"] == ["gemma", "qwen", "resting"]
    assert answer.json()["dry_run"] is True
    assert operations.wanted == before


def test_problems_of_a_catalog_come_with_their_places(admin: Client) -> None:
    answer = admin.post(
        "/api/v1/apply", json={"catalog": catalog_data({"profiles": [{"engine": "lama.cpp"}]})}
    )

    assert error(answer) == (400, "bad_input")
    assert answer.json()["error"]["problems"] == [
        {
            "path": ["models", 0, "profiles", 0, "engine"],
            "message": "no engine is called 'lama.cpp'; did you mean 'llama.cpp'?",
        }
    ]


def test_the_catalog_that_is_read_can_be_applied_again(admin: Client, operations: FakeOperations) -> None:
    catalog = admin.get("/api/v1/catalog").json()

    answer = admin.post("/api/v1/apply", json={"catalog": catalog, "prune": True})

    assert answer.json()["unchanged"] == ["gemma", "qwen", "resting"]
    assert read_catalog(catalog)[0] == operations.wanted


def test_a_key_is_shown_once_and_then_only_what_it_is(admin: Client, operations: FakeOperations) -> None:
    body = {"name": "ops", "scope": "admin", "models": ["a"], "expires_in_s": 60}

    made = admin.post("/api/v1/keys", json=body)
    listed = admin.get("/api/v1/keys")

    assert made.status_code == 201
    assert digest_of(made.json()["key"]) == operations.records[0].digest
    assert made.json()["key"] not in listed.text
    assert listed.json() == [{name: value for name, value in made.json().items() if name != "key"}]
    assert (listed.json()[0]["scope"], listed.json()[0]["expires_at"]) == ("admin", "2030-01-01T00:02:40Z")


def test_a_key_is_revoked(admin: Client) -> None:
    admin.post("/api/v1/keys", json={"name": "me"})

    assert admin.post("/api/v1/keys/1/revoke").json()["state"] == "revoked"
    assert error(admin.post("/api/v1/keys/2/revoke")) == (404, "not_found")


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({}, []),
        ({"name": 7}, ["name"]),
        ({"name": "me", "scope": "root"}, ["scope"]),
        ({"name": "me", "expires_in_s": 0}, ["expires_in_s"]),
        ({"name": "me", "expires_in_s": 1e300}, ["expires_in_s"]),
        ({"name": "me", "model": ["a"]}, ["model"]),
    ],
)
def test_a_key_that_cannot_be_made_is_refused_with_the_place(
    admin: Client, operations: FakeOperations, body: dict[str, Any], place: list[str]
) -> None:
    answer = admin.post("/api/v1/keys", json=body)

    assert error(answer) == (400, "bad_input")
    assert answer.json()["error"]["problems"][0]["path"] == place
    assert operations.records == []


def test_what_is_not_json_is_refused(admin: Client) -> None:
    header = {"content-type": "application/json"}

    assert error(admin.post("/api/v1/keys", content=b'{"na', headers=header)) == (400, "bad_input")
    assert error(admin.post("/api/v1/keys", content=b"[" * 100_000, headers=header)) == (400, "bad_input")
    assert error(admin.post("/api/v1/keys", content=b"[]", headers=header)) == (400, "bad_input")
    assert error(admin.post("/api/v1/keys", content=b'{"name": "me"}')) == (415, "unsupported_media_type")


def test_a_body_that_is_too_large_is_refused(admin: Client) -> None:
    content = b'{"name": "' + b"x" * (17 * 1024**2) + b'"}'

    answer = admin.post("/api/v1/keys", content=content, headers={"content-type": "application/json"})

    assert error(answer) == (413, "too_large")


@pytest.mark.parametrize("path", ["/nope", "/api", "/api/v1", "/api/v1/nope", "/v1/chat/completions"])
def test_an_address_that_nobody_serves_says_where_to_look(admin: Client, outside: Client, path: str) -> None:
    for client in (admin, outside):
        answer = client.get(path)
        assert error(answer) == (404, "unknown_url")
        assert "/api/v1/status" in answer.json()["error"]["message"]


def test_the_wrong_method_is_refused_with_the_right_one(admin: Client) -> None:
    answer = admin.get("/api/v1/apply")

    assert error(answer) == (405, "method_not_allowed")
    assert "POST" in answer.headers["allow"]


@pytest.mark.parametrize(
    ("failure", "status"),
    [(Conflict("x"), 409), (Unreachable("x"), 502), (StoreFailed("x"), 503)],
)
def test_an_error_of_ours_has_its_status_and_message(
    admin: Client, operations: FakeOperations, failure: LlmgwError, status: int
) -> None:
    operations.failure = failure

    answer = admin.get("/api/v1/nodes")

    assert error(answer) == (status, failure.code)
    assert answer.json()["error"]["message"] == "x"
    assert STATUS_OF[failure.code] == status


def test_a_fault_shows_an_id_and_the_detail_goes_to_the_log(
    admin: Client, operations: FakeOperations, caplog: pytest.LogCaptureFixture
) -> None:
    operations.failure = ZeroDivisionError("a row of the store")

    with caplog.at_level(logging.ERROR):
        answer = admin.get("/api/v1/nodes")

    assert error(answer) == (500, "internal")
    assert "a row of the store" not in answer.text
    assert answer.headers["x-error-id"] in answer.json()["error"]["message"]
    assert answer.headers["x-error-id"] in caplog.text
    assert "a row of the store" in caplog.text


@pytest.mark.parametrize("host", ["127.0.0.1:8081", "localhost:8081", "[::1]:8081", "gw:8081"])
def test_the_admin_listener_answers_to_addresses_and_plain_names(admin: Client, host: str) -> None:
    assert admin.get("/api/v1/keys", headers={"host": host}).status_code == 200


def test_a_page_that_points_its_own_name_at_loopback_is_refused(admin: Client) -> None:
    """Otherwise any page could have the browser of somebody on this machine apply a catalog."""
    answer = admin.get("/api/v1/keys", headers={"host": "evil.example"})

    assert error(answer) == (403, "other_name")


@pytest.mark.parametrize(
    ("address", "is_refused"),
    [("127.0.0.1", True), ("::1", True), ("::ffff:127.0.0.1", True), ("10.0.0.7", False), ("fd00::7", False)],
)
def test_another_name_is_refused_however_a_socket_writes_loopback(address: str, is_refused: bool) -> None:
    scope = {"type": "http", "headers": [(b"host", b"evil.example")], "server": (address, 8081)}

    refused = pytest.raises(Refusal, match="does not answer to") if is_refused else nullcontext()

    with refused:
        refuse_other_sites(Request(scope))


def test_a_page_of_another_site_is_refused_and_our_own_is_not(admin: Client) -> None:
    foreign = admin.get("/api/v1/keys", headers={"origin": "http://evil.example"})
    blind = admin.get("/api/v1/keys", headers={"origin": "null"})
    own = admin.get("/api/v1/keys", headers={"origin": "http://127.0.0.1:8081"})

    assert error(foreign) == error(blind) == (403, "other_site")
    assert own.status_code == 200


async def test_on_the_client_port_only_an_admin_key_opens(
    outside: Client, operations: FakeOperations
) -> None:
    admin = (await operations.create_key("ops", scope=Scope.ADMIN, models=None, expires_at=None)).key
    other = (await operations.create_key("me", scope=Scope.INFERENCE, models=None, expires_at=None)).key

    def ask(authorization: str | None) -> Any:
        headers = {} if authorization is None else {"authorization": authorization}
        return outside.get("/api/v1/status", headers=headers)

    assert error(ask(None)) == (401, "missing_api_key")
    assert ask(None).headers["www-authenticate"] == "Bearer"
    assert error(ask("Basic abc")) == (401, "missing_api_key")
    assert error(ask("Bearer sk-nobody")) == (401, "invalid_api_key")
    assert error(ask(f"Bearer {other}")) == (403, "not_an_admin_key")
    assert ask(f"bearer {admin}").status_code == 200
    await operations.revoke_key(1)
    assert error(ask(f"Bearer {admin}")) == (401, "invalid_api_key")


def test_a_write_on_the_client_port_is_refused_before_its_body_is_looked_at(
    outside: Client, operations: FakeOperations
) -> None:
    answer = outside.post("/api/v1/apply", content=b"{not json")

    assert error(answer) == (401, "missing_api_key")
    assert operations.wanted == sample_catalog()


def test_a_node_is_told_what_is_wanted_of_it(admin: Client, operations: FakeOperations) -> None:
    answer = admin.post("/api/v1/nodes/big/state", json={"state": "draining"})

    assert (answer.status_code, answer.json()) == (
        200,
        {"id": "big", "state": "draining", "replicas": ["gemma.0"]},
    )
    assert operations.upkeep.told == [("state", "big", "draining")]


def test_a_state_must_be_given(admin: Client, operations: FakeOperations) -> None:
    assert error(admin.post("/api/v1/nodes/big/state", json={})) == (400, "bad_input")
    assert operations.upkeep.told == []


def test_what_cannot_be_done_to_a_node_is_refused_with_the_reason(
    admin: Client, operations: FakeOperations
) -> None:
    operations.upkeep.failure = Conflict("node 'big' is connected")

    assert error(admin.post("/api/v1/nodes/big/forget", json={})) == (409, "conflict")


def test_a_node_is_forgotten(admin: Client, operations: FakeOperations) -> None:
    assert admin.post("/api/v1/nodes/gone/forget").json() == {"id": "gone"}
    assert operations.upkeep.told == [("forget", "gone")]


def test_a_node_shows_its_events(admin: Client, operations: FakeOperations) -> None:
    operations.upkeep.known["big"] = (
        NodeEvent(at=operations.clock.at(), node="big", kind="state", text="lost"),
    )

    (event,) = admin.get("/api/v1/nodes/big").json()["events"]

    assert event == {"at": "2030-01-01T00:01:40Z", "kind": "state", "text": "lost"}


def test_the_alarm_is_shown_and_cleared(admin: Client, operations: FakeOperations) -> None:
    operations.alarm = Alarm(since=operations.clock.start, nodes=("n1", "n2"), fleet=3)

    shown, status = admin.get("/api/v1/alarm").json(), admin.get("/api/v1/status").json()
    cleared = admin.post("/api/v1/alarm/clear")

    assert (shown["nodes"], shown["since_s"]) == (["n1", "n2"], NOW)
    assert status["alarm"] == shown
    assert (cleared.status_code, cleared.json()["nodes"]) == (200, ["n1", "n2"])
    assert operations.upkeep.told == [("clear",)]


@pytest.mark.parametrize("body", [None, {}, {"all": True}])
def test_a_model_is_rolled(admin: Client, operations: FakeOperations, body: dict[str, bool] | None) -> None:
    answer = admin.post("/api/v1/models/gemma/roll", json=body)

    assert answer.status_code == 200
    assert answer.json()["model"] == "gemma"
    assert operations.rolled == [("gemma", bool(body))]


def test_names_with_slashes_reach_their_verb(admin: Client, operations: FakeOperations) -> None:
    read, _ = read_catalog(catalog_data({"name": "org/gemma"}))
    assert read is not None
    operations.wanted = read

    answers = [
        admin.post(f"/api/v1/{path}")
        for path in ("models/org/gemma/roll", "models/org%2Fgemma/roll", "replicas/org%2Fgemma.0/restart")
    ]

    assert [answer.status_code for answer in answers] == [200, 200, 200]
    assert operations.rolled == [("org/gemma", False)] * 2
    assert operations.upkeep.told == [("restart", "org/gemma.0")]


def test_a_verb_that_does_not_exist_is_an_unknown_url(admin: Client) -> None:
    for path in ("models/gemma/eat", "models/roll", "replicas/gemma.0", "replicas/restart"):
        assert error(admin.post(f"/api/v1/{path}")) == (404, "unknown_url")


def test_a_model_that_is_not_there_cannot_be_rolled(admin: Client) -> None:
    assert error(admin.post("/api/v1/models/none/roll")) == (404, "not_found")


def test_a_replica_is_restarted(admin: Client, operations: FakeOperations) -> None:
    answer = admin.post("/api/v1/replicas/gemma.0/restart")

    assert (answer.status_code, answer.json()) == (200, {"id": "gemma.0", "generation": "3.1"})


@pytest.mark.parametrize("headers", [{"host": "["}, {"origin": "http://["}])
def test_a_host_or_origin_that_is_none_is_refused_and_no_fault(
    admin: Client, headers: dict[str, str]
) -> None:
    assert admin.get("/api/v1/keys", headers=headers).status_code == 403
