"""What holds for every route, whatever pages there will be: they are read off the applications themselves."""

import asyncio
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from fakes.operations import FakeOperations
from fakes.sample_fleet import NOW, sample_catalog, sample_fleet
from litestar import Litestar
from litestar.routes import HTTPRoute
from litestar.testing import TestClient

from llmgw.core.accounts.access import Denied
from llmgw.ui.app import admin_app, client_app
from llmgw.ui.pages.door import MOST_FORM_BYTES, MOST_OPEN_FORM_BYTES

Client = TestClient[Any]

ADA, BOB = "correct horse battery", "another good password"
HTML, STREAM = {"accept": "text/html"}, {"accept": "text/event-stream"}
OPEN = ("/login", "/login/first")
_PARAMETER = re.compile(r"\{[^}]*\}")
_TOKEN = re.compile(r'name="token" value="([^"]+)"')


class Way(NamedTuple):
    """One way into an application: a method and a path, with a name that exists where the route wants one."""

    method: str
    path: str


def ways(app: Litestar) -> list[Way]:
    """List every way that is no file."""
    return [
        Way(method, _PARAMETER.sub(_name(method, route.path), route.path))
        for route in app.routes
        if isinstance(route, HTTPRoute) and "/static/" not in route.path
        for method in sorted(route.methods - {"OPTIONS", "HEAD"})
    ]


def _name(method: str, path: str) -> str:
    """Give a name for a path; one that may have slashes has its verb behind it."""
    if "/models" in path:
        return "gemma/roll" if method == "POST" else "gemma"
    if "/replicas" in path:
        return "gemma.0/restart" if path.endswith(":path}") and method == "POST" else "gemma.0"
    return "1" if path.endswith("revoke") else "big"


@pytest.fixture
def operations() -> FakeOperations:
    operations = FakeOperations(sample_catalog(), sample_fleet())
    operations.clock.advance(NOW)
    return operations


@pytest.fixture
def outside(operations: FakeOperations) -> Iterator[Client]:
    asyncio.run(operations.people.create("ada", ADA, admin=True))
    asyncio.run(operations.people.create("bob", BOB, admin=False))
    app = client_app(operations, find_admin_key=lambda key: Denied("missing_api_key", "no API key"))
    with TestClient(app, base_url="http://gw.example:8080") as client:
        client.headers.update(HTML)
        client.follow_redirects = False
        yield client


@pytest.fixture
def admin(operations: FakeOperations) -> Iterator[Client]:
    with TestClient(admin_app(operations), base_url="http://127.0.0.1:8081") as client:
        client.headers.update(HTML)
        client.follow_redirects = False
        yield client


def log_in(client: Client, name: str, password: str) -> None:
    token = _TOKEN.search(client.get("/login").text)
    assert token is not None
    answer = client.post("/login", data={"token": token[1], "name": name, "password": password})
    assert answer.status_code == 303, answer.text


def pages_of(client: Client) -> list[Way]:
    found = [way for way in ways(client.app) if not way.path.startswith("/api/") and way.path not in OPEN]
    assert len(found) > 10
    return found


def api_of(client: Client) -> list[Way]:
    found = [way for way in ways(client.app) if way.path.startswith("/api/")]
    assert len(found) > 10
    return found


def test_without_a_session_every_page_leads_to_the_login_and_every_form_is_refused(outside: Client) -> None:
    wrong = []

    for way in pages_of(outside):
        answer = outside.request(way.method, way.path)
        led = answer.status_code == 303 and answer.headers["location"].startswith("/login?next=")
        if not led if way.method == "GET" else answer.status_code != 401:
            wrong.append((way, answer.status_code))

    assert wrong == []


def test_without_a_session_no_stream_follows_to_the_login(outside: Client) -> None:
    streams = [way for way in pages_of(outside) if way.path.endswith(("/events", "/follow"))]

    found = [outside.get(way.path, headers=STREAM).status_code for way in streams]

    assert found == [401, 401]


def test_without_a_key_or_a_session_no_way_into_the_api_is_open(outside: Client) -> None:
    found = {way: outside.request(way.method, way.path).status_code for way in api_of(outside)}

    assert set(found.values()) == {401}


def test_whoever_is_no_admin_gets_403_from_every_page_but_the_account(outside: Client) -> None:
    log_in(outside, "bob", BOB)

    found = {
        way: outside.request(way.method, way.path).status_code
        for way in [*pages_of(outside), *api_of(outside)]
        if way.path not in ("/account", "/account/password", "/logout")
    }

    assert set(found.values()) == {403}
    assert outside.get("/account").status_code == 200


@pytest.mark.parametrize("form", [{}, {"token": ""}, {"token": "guessed"}, {"token": "ä"}])
def test_a_forged_form_gets_403_whatever_it_is_for(
    outside: Client, admin: Client, operations: FakeOperations, form: dict[str, str]
) -> None:
    log_in(outside, "ada", ADA)
    wrong = []

    for client in (outside, admin):
        forms = [way for way in pages_of(client) if way.method == "POST"]
        assert len(forms) > 5
        for way in forms:
            if (status := client.post(way.path, data=form).status_code) != 403:
                wrong.append((way, status))

    assert wrong == []
    assert operations.upkeep.told == []
    assert operations.weights.asked == []


def test_a_session_changes_nothing_over_the_api_without_its_token(outside: Client) -> None:
    log_in(outside, "ada", ADA)

    found = {
        way: outside.request(way.method, way.path, json={}).status_code
        for way in api_of(outside)
        if way.method != "GET"
    }

    assert len(found) > 5
    assert set(found.values()) == {403}


def test_no_form_may_be_larger_than_a_form_can_be(outside: Client) -> None:
    log_in(outside, "ada", ADA)
    wrong = []

    for way in ways(outside.app):
        if way.method == "POST" and not way.path.startswith("/api/"):
            most = MOST_FORM_BYTES if way.path.startswith("/admin") else MOST_OPEN_FORM_BYTES
            if (status := outside.post(way.path, data={"a": "b" * most}).status_code) != 413:
                wrong.append((way, status))

    assert wrong == []
