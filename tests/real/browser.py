"""Debian's Chromium, watched: whatever it complains of fails the test that opened it."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

from playwright.sync_api import BrowserContext, ConsoleMessage, Page, sync_playwright
from real.requirement import missing

CHROMIUM = Path("/usr/bin/chromium")


class Browser:
    """Opens pages; `complaints` holds errors of the console, of scripts and of the content policy."""

    def __init__(self, playwright: Any) -> None:
        # The sandbox needs rights that a container may not have; these pages are our own.
        self._browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        self.complaints: list[str] = []

    def context(self, **options: Any) -> BrowserContext:
        """Open a window of its own: a size, a scheme, with or without scripts."""
        context: BrowserContext = self._browser.new_context(**options)
        context.on("console", self._heard)
        context.on("weberror", lambda error: self.complaints.append(str(error.error)))
        return context

    def renderers(self) -> list[int]:
        """Give the pids of the processes that hold pages."""
        session = self._browser.new_browser_cdp_session()
        found = session.send("SystemInfo.getProcessInfo")["processInfo"]
        session.detach()
        return [one["id"] for one in found if one["type"] == "renderer"]

    def close(self) -> None:
        self._browser.close()

    def _heard(self, message: ConsoleMessage) -> None:
        # A server that is away is part of some tests, and the page says so itself.
        if message.type == "error" and "net::ERR_" not in message.text:
            self.complaints.append(f"{message.text} ({message.location.get('url')})")


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start a browser and end it with the block."""
    if not CHROMIUM.exists():
        missing(f"{CHROMIUM} is not there; install it with: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = Browser(playwright)
        yield browser
        browser.close()


def axe_findings(page: Page) -> list[str]:
    """Let axe-core look at a page; gives what it finds that is serious or worse, a line each."""
    page.evaluate(files("axe_playwright_python").joinpath("axe.min.js").read_text())
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']}).then(found => found.violations)")
    return [
        f"{one['id']} ({one['impact']}): {one['help']}: {node['html'][:200]}"
        for one in found
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]
