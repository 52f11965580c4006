"""Logging in on the client port, over real sockets: who comes in, who is slowed, and whose forms count."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from fakes.running_server import RunningServer

pytestmark = pytest.mark.slow

ADA = {"name": "ada", "password": "correct horse battery"}
BOB = {"name": "bob", "password": "another good password"}
_TOKEN = re.compile(r'name="token" value="([^"]+)"')


class Browser:
    """Keeps cookies and sends forms as a browser would; follows nothing by itself."""

    def __init__(self, port: int) -> None:
        self.http = httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{port}", headers={"accept": "text/html"}, trust_env=False
        )

    async def get(self, path: str) -> httpx.Response:
        return await self.http.get(path)

    async def send(self, page: str, path: str | None = None, **fields: str) -> httpx.Response:
        """Load a page and send the form on it, to `path` when that is another."""
        token = _TOKEN.search((await self.get(page)).text)
        assert token is not None
        return await self.http.post(path or page, data={"token": token[1]} | fields)

    async def log_in(self, who: dict[str, str], following: str = "") -> httpx.Response:
        return await self.send("/login", **who | {"next": following})


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[RunningServer]:
    async with RunningServer(tmp_path) as server:
        api = f"http://127.0.0.1:{server.port('admin')}/api/v1/users"
        async with httpx.AsyncClient(trust_env=False) as http:
            for body in (ADA | {"admin": True}, BOB):
                assert (await http.post(api, json=body)).status_code == 201
        yield server


@pytest.fixture
async def browser(server: RunningServer) -> AsyncIterator[Browser]:
    browser = Browser(server.port("client"))
    yield browser
    await browser.http.aclose()


@pytest.mark.parametrize("path", ["/admin", "/admin/models", "/admin/nodes/n1/logs?lines=100", "/account"])
async def test_without_a_session_every_page_leads_to_the_login_and_back(browser: Browser, path: str) -> None:
    found = await browser.get(path)
    entered = await browser.log_in(ADA, httpx.URL(found.headers["location"]).params["next"])

    assert found.status_code == 303
    assert found.headers["location"].startswith("/login?next=")
    assert (entered.status_code, entered.headers["location"]) == (303, path)


async def test_an_admin_who_has_logged_in_sees_the_pages_until_logging_out(browser: Browser) -> None:
    entered = await browser.log_in(ADA)
    seen = await browser.get("/admin/")
    left = await browser.send("/admin/", "/logout")
    after = await browser.get("/admin/")

    assert entered.headers["location"] == "/admin/"
    assert (seen.status_code, "ada" in seen.text) == (200, True)
    assert (left.status_code, left.headers["location"]) == (303, "/login")
    assert after.status_code == 303


async def test_the_cookie_is_for_this_server_alone_and_no_script_reads_it(browser: Browser) -> None:
    entered = await browser.log_in(ADA)

    cookie = entered.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    assert "path=/" in cookie


async def test_a_user_who_is_no_admin_is_told_so_and_has_an_account(browser: Browser) -> None:
    entered = await browser.log_in(BOB)
    refused = await browser.get("/admin/")
    api = await browser.get("/api/v1/nodes")
    account = await browser.get("/account")

    assert entered.headers["location"] == "/account"
    assert (refused.status_code, api.status_code, account.status_code) == (403, 403, 200)
    assert "bob is none" in refused.text


@pytest.mark.parametrize("path", ["/logout", "/account/password", "/admin/nodes/n1/state"])
async def test_a_form_that_another_site_made_is_refused(browser: Browser, path: str) -> None:
    await browser.log_in(ADA)

    forged = [await browser.http.post(path, data=data) for data in ({}, {"token": "guessed"})]

    assert [answer.status_code for answer in forged] == [403, 403]
    assert (await browser.get("/admin/")).status_code == 200


async def test_a_login_that_another_site_sends_is_refused(browser: Browser) -> None:
    bare = await browser.http.post("/login", data=ADA)
    await browser.get("/login")
    guessed = await browser.http.post("/login", data=ADA | {"token": "guessed"})

    assert [bare.status_code, guessed.status_code] == [403, 403]


async def test_a_session_changes_things_over_the_api_only_with_its_token(browser: Browser) -> None:
    await browser.log_in(ADA)
    token = _TOKEN.search((await browser.get("/admin/")).text)
    assert token is not None

    read = await browser.get("/api/v1/users")
    forged = await browser.http.post("/api/v1/users/bob/remove")
    meant = await browser.http.post("/api/v1/users/bob/remove", headers={"x-llmgw-token": token[1]})

    assert [answer.status_code for answer in (read, forged, meant)] == [200, 403, 200]
    assert [user["name"] for user in read.json()] == ["ada", "bob"]


async def test_five_wrong_passwords_slow_the_sixth(browser: Browser) -> None:
    wrong = [await browser.log_in(ADA | {"password": f"wrong password {n}"}) for n in range(5)]

    sixth = await browser.log_in(ADA)

    assert [answer.status_code for answer in wrong] == [403] * 5
    assert sixth.status_code == 429
    assert int(sixth.headers["retry-after"]) >= 1
    assert "too many wrong passwords" in sixth.text.lower()
    assert (await browser.get("/admin/")).status_code == 303


@pytest.mark.parametrize(
    "elsewhere",
    ["https://evil.example/admin/", "//evil.example/", "/\\evil.example", "/v1/models", "javascript:1"],
)
async def test_a_login_leads_nowhere_but_to_these_pages(browser: Browser, elsewhere: str) -> None:
    entered = await browser.log_in(ADA, elsewhere)

    assert entered.headers["location"] == "/admin/"


async def test_another_password_needs_the_present_one_and_ends_every_session(
    server: RunningServer, browser: Browser
) -> None:
    other = Browser(server.port("client"))
    await browser.log_in(BOB)
    await other.log_in(BOB)
    new = {"password": "a third good password", "again": "a third good password"}

    refused = await browser.send("/account", "/account/password", present="wrong password", **new)
    changed = await browser.send("/account", "/account/password", present=BOB["password"], **new)
    after = [await browser.get("/account"), await other.get("/account")]
    await other.http.aclose()

    assert refused.status_code == 400
    assert "present password was not taken" in refused.text
    assert changed.status_code == 303
    assert [answer.status_code for answer in after] == [303, 303]


async def test_the_one_time_link_makes_the_first_admin_and_is_void_then(tmp_path: Path) -> None:
    async with RunningServer(tmp_path) as server:
        browser = Browser(server.port("client"))
        token = server.first_token()
        page = await browser.get(f"/login/first?token={token}")
        fields = {"name": "ada", "password": ADA["password"], "again": ADA["password"]}

        differ = await browser.send("/login/first", first=token, **fields | {"again": "something else"})
        wrong = await browser.send("/login/first", first="guessed", **fields)
        short = await browser.send("/login/first", first=token, name="ada", password="short", again="short")
        made = await browser.send("/login/first", first=token, **fields)
        seen = await browser.get("/admin/")
        again = await browser.get(f"/login/first?token={token}")
        await browser.http.aclose()

    assert (page.status_code, token in page.text) == (200, True)
    assert [answer.status_code for answer in (differ, wrong, short)] == [400, 400, 400]
    assert "found 5" in short.text
    assert (made.status_code, made.headers["location"]) == (303, "/admin/")
    assert seen.status_code == 200
    assert (again.status_code, again.headers["location"]) == (303, "/login")


async def test_what_pages_show_may_not_be_framed_or_kept(browser: Browser) -> None:
    found = [await browser.get("/login"), await browser.get("/admin/")]
    await browser.log_in(ADA)
    found += [
        await browser.get("/admin/"),
        await browser.get("/account"),
        await browser.get("/admin/nothing"),
    ]

    for answer in found:
        assert answer.headers["cache-control"] == "no-store"
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
