from collections.abc import Iterator

import pytest
from fakes.catalogs import catalog_data
from fakes.operations import FakeOperations
from fakes.sample_fleet import NOW, sample_catalog, sample_fleet
from litestar.testing import TestClient

from llmgw.ui.app import admin_app


@pytest.fixture
def operations() -> FakeOperations:
    operations = FakeOperations(sample_catalog(), sample_fleet())
    operations.clock.advance(NOW)
    return operations


@pytest.fixture
def client(operations: FakeOperations) -> Iterator[TestClient]:  # type: ignore[type-arg]
    with TestClient(admin_app(operations)) as client:
        yield client


def test_an_explanation_says_what_is_asked_and_where_the_next_replica_would_go(client) -> None:
    found = client.get("/api/v1/explain-placement?model=gemma").json()

    (needs,) = found["needs"]
    assert (needs["profile"], needs["memory_said"]) == ("cpu", "given")
    assert (found["next"]["profile"], found["next"]["nodes"]) == ("cpu", ["old"])


def test_a_catalog_in_the_body_is_judged_and_not_applied(client, operations: FakeOperations) -> None:
    body = {"model": "new", "catalog": catalog_data({"name": "new"})}

    answer = client.post("/api/v1/explain-placement", json=body)

    assert answer.status_code == 200
    assert (answer.json()["model"], answer.json()["ready"]) == ("new", 0)
    assert operations.catalog().model("new") is None


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"model": "new"}, 400, "bad_input"),
        ({"catalog": {"models": []}}, 400, "bad_input"),
        ({"model": "new", "catalog": {"models": []}}, 404, "not_found"),
        ({"model": "new", "catalog": {"models": [{}]}}, 400, "bad_input"),
        ([], 400, "bad_input"),
    ],
)
def test_a_body_that_cannot_be_judged_is_refused(client, body: object, status: int, code: str) -> None:
    answer = client.post("/api/v1/explain-placement", json=body)

    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
