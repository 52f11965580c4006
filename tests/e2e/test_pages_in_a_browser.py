"""UI-1, UI-2, LOG-7: the pages of a server with a fleet, in Debian's Chromium."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes.demo_fleet import FAILING
from fakes.demo_server import DemoServer
from fakes.nodes import an_introduction
from playwright.sync_api import BrowserContext, Page, expect
from real.browser import Browser, axe_findings, chromium

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

EVIL = "<script>window.hurt=1</script><img src=x onerror=window.hurt=1>"
LOG_NODE = "evil.node:1+2"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoServer]:
    evil = an_introduction(LOG_NODE, labels={"note": EVIL, "long": "x" * 700}, pool=EVIL, engines=())
    with DemoServer(tmp_path_factory.mktemp("demo"), evil) as server:
        yield server


@pytest.fixture(scope="module")
def chrome() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def browser(chrome: Browser) -> Iterator[Browser]:
    chrome.complaints.clear()
    yield chrome
    assert chrome.complaints == []


@pytest.fixture
def window(browser: Browser) -> Iterator[BrowserContext]:
    with browser.context(viewport={"width": 1440, "height": 900}) as context:
        yield context


@pytest.fixture
def page(window: BrowserContext) -> Page:
    page = window.new_page()
    page.set_default_timeout(20_000)
    return page


def failing(server: DemoServer) -> tuple[str, str]:
    """The node and the shard of the engine that fails."""
    row = next(row for row in server.read("replicas") if row["model"] == FAILING)
    return row["node"], row["shard"]


def paths(server: DemoServer) -> list[str]:
    node, shard = failing(server)
    return [
        "/",
        "/nodes/h100-02",
        "/nodes/l40s-02",
        f"/nodes/{LOG_NODE}",
        f"/nodes/{node}/logs?source={shard}",
        "/models",
        "/models/deepseek/r1-671b",
        "/replicas",
        "/weights",
        "/weights/collect",
        "/nodes/cpu-01/forget",
        "/alarm",
        "/nope",
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
def test_every_page_can_be_used_by_everybody_and_fits(
    server: DemoServer, browser: Browser, scheme: str, width: int
) -> None:
    findings = []

    with browser.context(viewport={"width": width, "height": 900}, color_scheme=scheme) as context:
        page = context.new_page()
        for path in paths(server):
            page.goto(server.admin + path)
            findings += [f"{path}: {finding}" for finding in axe_findings(page)]
            wide = page.evaluate("document.documentElement.scrollWidth")
            if wide > width:
                findings.append(f"{path}: is {wide} px wide")
    # The page that is not there is meant not to be there.
    browser.complaints[:] = [one for one in browser.complaints if "/nope" not in one]

    assert findings == []


@pytest.mark.parametrize("width", [920, 1024, 1280])
def test_no_page_is_wider_than_a_tablet_or_a_laptop(server: DemoServer, browser: Browser, width: int) -> None:
    wide = {}

    with browser.context(viewport={"width": width, "height": 800}) as context:
        page = context.new_page()
        for path in paths(server):
            page.goto(server.admin + path)
            wide[path] = page.evaluate("document.documentElement.scrollWidth")
    browser.complaints[:] = [one for one in browser.complaints if "/nope" not in one]

    assert {path: px for path, px in wide.items() if px > width} == {}


def test_the_engines_own_words_are_two_clicks_from_the_cluster_page(server: DemoServer, page: Page) -> None:
    node, shard = failing(server)
    page.goto(server.admin)

    page.get_by_role("link", name=f"Logs of {node}", exact=True).click()
    page.get_by_role("navigation", name="Sources").get_by_role("link", name=shard).click()

    expect(page.locator("#lines")).to_contain_text("unable to allocate CUDA0 buffer")
    expect(page.locator("#lines .loud").last).to_be_in_viewport()


def test_the_same_way_can_be_gone_with_the_keyboard_alone(server: DemoServer, page: Page) -> None:
    node, shard = failing(server)
    page.goto(server.admin)

    for target in (f"Logs of {node}", f"{shard}"):
        for _ in range(200):
            page.keyboard.press("Tab")
            focused = page.evaluate("document.activeElement.textContent.trim().replace(/\\s+/g, ' ')")
            if focused.replace("LogsLogs", "Logs").endswith(target) or focused.startswith(target):
                break
        ring = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert ring == "solid", f"no ring around {focused}"
        with page.expect_navigation():
            page.keyboard.press("Enter")

    expect(page.locator("#lines")).to_contain_text("unable to allocate CUDA0 buffer")


def test_nothing_that_a_node_says_is_run(server: DemoServer, page: Page) -> None:
    server.write(LOG_NODE, "agent", EVIL, "before the end")
    for path in ("/", f"/nodes/{LOG_NODE}", f"/nodes/{LOG_NODE}/logs"):
        page.goto(server.admin + path)
        expect(page.locator("main")).to_contain_text("window.hurt=1")
        assert page.evaluate("window.hurt") is None, path

    server.write(LOG_NODE, "agent", EVIL, "the very end")
    expect(page.locator("#lines")).to_contain_text("the very end")

    assert page.evaluate("window.hurt") is None


def test_a_page_shows_what_changes_without_loading_itself_anew(server: DemoServer, page: Page) -> None:
    page.goto(server.admin)
    expect(page.locator("#live")).to_have_text("live")
    page.evaluate("window.same = true")
    row = page.locator('[id="node:h100-01"]')
    expect(row).to_contain_text("ready")
    button = row.get_by_role("link", name="Logs of h100-01", exact=True)
    button.focus()

    server.post("nodes/h100-01/state", {"state": "cordoned"})
    expect(row).to_contain_text("cordoned")

    assert page.evaluate("window.same")
    expect(button).to_be_focused()
    server.post("nodes/h100-01/state", {"state": "ready"})
    expect(row.locator(".state")).to_have_text("ready")


def test_rows_come_and_go_in_their_order(server: DemoServer, page: Page) -> None:
    page.goto(f"{server.admin}/models")
    expect(page.locator("#live")).to_have_text("live")
    more = {
        "name": "aaa-first",
        "replicas": 0,
        "profiles": [{"name": "p", "engine": "llama.cpp", "weights": "file:///x.gguf"}],
    }

    server.post("apply", {"catalog": {"models": [more]}})
    first = page.locator("#model-rows tbody").first
    expect(first).to_contain_text("aaa-first")
    stored = server.read("catalog")["models"]
    server.post(
        "apply", {"catalog": {"models": [m for m in stored if m["name"] != "aaa-first"]}, "prune": True}
    )

    expect(page.locator('[id="model:aaa-first"]')).to_have_count(0)


def test_buttons_work_with_and_without_scripts(server: DemoServer, browser: Browser) -> None:
    for scripts in (True, False):
        with browser.context(java_script_enabled=scripts) as context:
            page = context.new_page()
            page.goto(f"{server.admin}/nodes/cpu-01")
            page.get_by_role("button", name="Cordon", exact=True).click()
            expect(page.locator("header.head .state")).to_have_text("cordoned")
            page.get_by_role("button", name="Uncordon").click()
            expect(page.locator("header.head .state")).to_have_text("ready")


def test_without_scripts_pages_say_the_same_and_a_log_begins_at_its_end(
    server: DemoServer, browser: Browser
) -> None:
    server.write("cpu-01", "agent", *(f"line {number}" for number in range(500)))
    server.until("nodes/cpu-01/logs?lines=1", lambda said: said["lines"] == ["line 499"])

    with browser.context(java_script_enabled=False, viewport={"width": 390, "height": 800}) as context:
        page = context.new_page()
        page.goto(server.admin)
        expect(page.locator('[id="node:cpu-01"]')).to_contain_text("401.2 GiB")
        expect(page.locator("#live")).to_be_empty()
        page.goto(f"{server.admin}/nodes/cpu-01/logs?lines=1000")

        expect(page.get_by_text("line 499", exact=True)).to_be_in_viewport()
        expect(page.get_by_text("line 100", exact=True)).not_to_be_in_viewport()


def test_a_followed_log_goes_on_at_its_end_and_stays_where_somebody_reads(
    server: DemoServer, page: Page
) -> None:
    server.write("cpu-02", "agent", *(f"old {number}" for number in range(300)))
    server.until("nodes/cpu-02/logs?lines=1", lambda said: said["lines"] == ["old 299"])
    page.goto(f"{server.admin}/nodes/cpu-02/logs?lines=2000")
    expect(page.locator("#live")).to_have_text("following")

    server.write("cpu-02", "agent", "the first new line")
    expect(page.get_by_text("the first new line")).to_be_in_viewport()
    page.get_by_text("old 20", exact=True).scroll_into_view_if_needed()
    before = page.get_by_text("old 20", exact=True).bounding_box()
    server.write("cpu-02", "agent", *(f"more {number}" for number in range(50)))
    expect(page.get_by_text("more 49", exact=True)).to_have_count(1)

    after = page.get_by_text("old 20", exact=True).bounding_box()
    assert before is not None
    assert after is not None
    assert abs(before["y"] - after["y"]) < 2


def test_a_log_that_stands_gets_no_new_lines(server: DemoServer, page: Page) -> None:
    page.goto(f"{server.admin}/nodes/cpu-01/logs?follow=0")

    server.write("cpu-01", "agent", "unseen")
    server.until("nodes/cpu-01/logs?lines=1", lambda said: said["lines"] == ["unseen"])

    expect(page.locator("#lines")).not_to_contain_text("unseen")
    page.get_by_role("link", name="Follow").click()
    expect(page.locator("#lines")).to_contain_text("unseen")


def test_a_lost_connection_shows_and_comes_back_with_what_changed_and_no_line_twice(
    server: DemoServer, window: BrowserContext
) -> None:
    cluster, log = window.new_page(), window.new_page()
    cluster.goto(server.admin)
    log.goto(f"{server.admin}/nodes/cpu-01/logs?lines=2000")
    expect(cluster.locator("#live")).to_have_text("live")
    expect(log.locator("#live")).to_have_text("following")
    server.write("cpu-01", "agent", "before the restart")
    expect(log.get_by_text("before the restart")).to_have_count(1)

    took = server.stop()
    expect(cluster.locator("#live")).to_have_text("connection lost, reconnecting", timeout=20_000)
    server.write("cpu-01", "agent", "during the restart")
    server.start()
    server.until("nodes", lambda nodes: len(nodes) == len(server.agents))
    server.post("nodes/cpu-02/state", {"state": "draining"})

    assert took < 5
    expect(cluster.locator("#live")).to_have_text("live", timeout=30_000)
    expect(cluster.locator('[id="node:cpu-02"] .state')).to_have_text(re.compile("draining"), timeout=20_000)
    expect(log.get_by_text("during the restart")).to_have_count(1, timeout=30_000)
    expect(log.get_by_text("before the restart")).to_have_count(1)
    server.post("nodes/cpu-02/state", {"state": "ready"})


def test_the_client_port_shows_no_page_without_a_session(server: DemoServer, page: Page) -> None:
    client = f"http://{server.client}"

    page.goto(f"{client}/admin/nodes/h100-02")

    assert page.url == f"{client}/login?next=/admin/nodes/h100-02"


def test_a_page_that_is_left_open_ends_no_later_than_the_server(tmp_path: Path, browser: Browser) -> None:
    with DemoServer(tmp_path) as server, browser.context() as context:
        pages = [context.new_page() for _ in range(3)]
        for page, path in zip(pages, ("/", "/replicas", "/nodes/cpu-01/logs"), strict=True):
            page.goto(server.admin + path)
            expect(page.locator("#live")).to_have_text(re.compile("live|following"))

        assert server.stop() < 5


def test_a_source_that_had_nothing_to_show_does_not_say_so_any_more_when_it_has(
    server: DemoServer, page: Page
) -> None:
    page.goto(f"{server.admin}/nodes/cpu-01/logs?source=later.0.0")
    expect(page.get_by_role("alert")).to_contain_text("no source is called 'later.0.0'")
    expect(page.locator(".log")).to_be_hidden()

    server.write("cpu-01", "later.0.0", "here it is")

    expect(page.get_by_text("here it is")).to_be_in_viewport()
    expect(page.get_by_role("alert")).to_have_count(0)
