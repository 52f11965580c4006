"""ACCT-5: logging in, and what open pages do when whoever looks may look no more, in Debian's Chromium."""

import re
from collections.abc import Iterator

import pytest
from fakes.demo_server import DemoServer
from playwright.sync_api import BrowserContext, Page, expect
from real.browser import Browser, axe_findings, chromium

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

PASSWORD = "correct horse battery"
BEHIND = """
Object.defineProperty(document, "hidden", { get: () => window.isBehind ?? true });
window.bringUp = () => { window.isBehind = false; document.dispatchEvent(new Event("visibilitychange")); };
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoServer]:
    with DemoServer(tmp_path_factory.mktemp("demo")) as server:
        for name in ("ada", "grace"):
            server.post("users", {"name": name, "password": PASSWORD, "admin": True})
        server.post("users", {"name": "bob", "password": PASSWORD})
        yield server


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def window(browser: Browser) -> Iterator[BrowserContext]:
    with browser.context(viewport={"width": 1440, "height": 900}) as context:
        context.set_default_timeout(20_000)
        yield context


def log_in(server: DemoServer, page: Page, name: str, password: str = PASSWORD) -> None:
    page.goto(f"http://{server.client}/login")
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Log in").click()


def findings(page: Page, width: int) -> list[str]:
    wide = page.evaluate("document.documentElement.scrollWidth")
    found = [f"{page.url}: {finding}" for finding in axe_findings(page)]
    return found + ([f"{page.url}: is {wide} px wide"] if wide > width else [])


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
def test_pages_around_the_login_can_be_used_by_everybody_and_fit(
    server: DemoServer, browser: Browser, scheme: str, width: int
) -> None:
    client, found = f"http://{server.client}", []

    with browser.context(viewport={"width": width, "height": 900}, color_scheme=scheme) as context:
        page = context.new_page()
        page.goto(f"{client}/login")
        found += findings(page, width)
        log_in(server, page, "bob", "wrong")
        expect(page.get_by_role("alert")).to_contain_text("The name or the password is wrong")
        found += findings(page, width)
        log_in(server, page, "bob")
        expect(page).to_have_url(f"{client}/account")
        found += findings(page, width)
        page.goto(f"{client}/admin/")
        expect(page.locator("main")).to_contain_text("Not allowed")
        found += findings(page, width)
        page.get_by_role("button", name="Log in as somebody else").click()
        expect(page).to_have_url(f"{client}/login")
        log_in(server, page, "ada")
        expect(page).to_have_url(f"{client}/admin/")
        for path in ("/account", "/admin/nope", "/admin/nodes/nobody/logs"):
            page.goto(client + path)
            found += findings(page, width)

    assert found == []


def test_whoever_logs_out_in_one_tab_sees_no_more_in_the_others(
    server: DemoServer, window: BrowserContext
) -> None:
    first, cluster, log = (window.new_page() for _ in range(3))
    log_in(server, first, "ada")
    cluster.goto(f"http://{server.client}/admin/replicas")
    log.goto(f"http://{server.client}/admin/nodes/cpu-01/logs")
    expect(cluster.locator("#live")).to_have_text("live")
    expect(log.locator("#live")).to_have_text("following")

    first.get_by_role("button", name="Log out").click()
    expect(first).to_have_url(re.compile(r"/login$"))
    server.write("cpu-01", "agent", "said behind a closed door")

    expect(cluster).to_have_url(re.compile(r"/login\?next=/admin/replicas$"), timeout=30_000)
    expect(log).to_have_url(re.compile(r"/login\?next=/admin/nodes/cpu-01/logs$"), timeout=30_000)
    log_in(server, first, "ada")
    log.reload()
    expect(log).to_have_url(re.compile(r"/admin/nodes/cpu-01/logs$"))


def test_whoever_is_no_admin_any_more_is_told_so_by_the_page_that_is_open(
    server: DemoServer, window: BrowserContext
) -> None:
    page = window.new_page()
    log_in(server, page, "grace")
    page.goto(f"http://{server.client}/admin/models")
    expect(page.locator("#live")).to_have_text("live")

    server.post("users/grace", {"admin": False})

    expect(page).to_have_url(re.compile(r"/login\?next=/admin/models$"), timeout=30_000)
    log_in(server, page, "grace")
    expect(page).to_have_url(re.compile(r"/account$"))


def test_pages_that_are_opened_behind_another_do_not_take_its_connections(
    server: DemoServer, window: BrowserContext
) -> None:
    """A browser opens six connections to one server; a stream in each of seven tabs would leave none for the next."""
    behind = [window.new_page() for _ in range(8)]
    for page in behind:
        page.add_init_script(BEHIND)
        page.goto(f"{server.admin}/nodes/cpu-02/logs")

    seen = window.new_page()
    seen.goto(f"{server.admin}/nodes/cpu-02/logs")
    expect(seen.locator("#live")).to_have_text("following")
    server.write("cpu-02", "agent", "while nobody looked")
    expect(behind[0].locator("#live")).to_be_empty()
    behind[0].evaluate("bringUp()")

    expect(behind[0].locator("#live")).to_have_text("following")
    expect(behind[0].locator("#lines")).to_contain_text("while nobody looked")
