"""A viewer that is a browser: the page of a followed log is left open, and what it shows and holds is watched."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import CDPSession, Dialog, Page
from real.browser import Browser, chromium

LINES = 2000
SAMPLE_EVERY_S = 5.0
_WATCH = """
addEventListener("DOMContentLoaded", () => {
  const lines = document.getElementById("lines");
  const most = Number(lines.dataset.lines);
  const seen = window.seen = { newest: null, lines: 0, doubled: [], missing: [], markers: [], most: 0 };
  let served = lines.childElementCount, marked = false;
  new MutationObserver((records) => {
    for (const record of records) {
      // The stream begins with the lines that the page came with, and takes their place.
      if (served && record.removedNodes.length >= served) { served = 0; seen.newest = null; }
      // What has no room in the page is left out of it, the oldest first.
      if (record.addedNodes.length >= most) seen.newest = null;
      for (const node of record.addedNodes) {
        if (node.className === "marker") { seen.markers.push(node.textContent); marked = true; }
        const found = /n=(\\d{9})/.exec(node.textContent);
        if (!found) continue;
        const number = Number(found[1]);
        seen.lines += 1;
        if (seen.newest !== null && number <= seen.newest) seen.doubled.push(number);
        else if (seen.newest !== null && number > seen.newest + 1 && !marked)
          seen.missing.push(number - seen.newest - 1);
        seen.newest = number;
        marked = false;
      }
    }
    seen.most = Math.max(seen.most, lines.childElementCount);
  }).observe(lines, { childList: true });
});
"""


class BrowserViewer:
    """Keeps the page of one source open, in a thread of its own, until it is told to leave.

    Attributes:
        seen: what the page was given line by line; empty until it was looked at for the first time.
        complaints: what the browser complained of: errors of scripts and of the content policy, and dialogs.
        titles: each title that the page had; a script in a line would change it.
        heap_mib: of the page's scripts, without garbage, at each sample.
        process_mib: resident memory of the page's process, at each sample.
        elements: how many the page had, at each sample.
    """

    def __init__(self, address: Callable[[], str], node: str, source: str) -> None:
        self._url = f"http://{address()}/nodes/{node}/logs?source={source}&lines={LINES}"
        self._leaving = threading.Event()
        self.seen: dict[str, Any] = {}
        self.complaints: list[str] = []
        self.titles: set[str] = set()
        self.heap_mib: list[float] = []
        self.process_mib: list[float] = []
        self.elements: list[int] = []
        self.problem: str | None = None
        self._thread = threading.Thread(target=self._view, daemon=True)
        self._thread.start()

    @property
    def newest(self) -> int | None:
        """The number of the newest line that the page shows."""
        return self.seen.get("newest")

    def leave(self) -> None:
        """Close the page and the browser."""
        self._leaving.set()
        self._thread.join(30)

    def _view(self) -> None:
        try:
            with chromium() as browser, browser.context() as context:
                page = context.new_page()
                page.on("dialog", self._asked)
                page.add_init_script(_WATCH)
                page.goto(self._url)
                self._watch(browser, page, context.new_cdp_session(page))
                self.complaints += browser.complaints
        except Exception as error:  # noqa: BLE001 - a browser that broke is a finding, told by whoever counts
            self.problem = repr(error)

    def _asked(self, dialog: Dialog) -> None:
        self.complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _watch(self, browser: Browser, page: Page, cdp: CDPSession) -> None:
        sampled = 0.0
        while not self._leaving.is_set():
            self.seen = page.evaluate("window.seen")
            self.titles.add(page.title())
            if time.monotonic() - sampled >= SAMPLE_EVERY_S:
                sampled = time.monotonic()
                self._sample(browser, page, cdp)
            page.wait_for_timeout(500)

    def _sample(self, browser: Browser, page: Page, cdp: CDPSession) -> None:
        cdp.send("HeapProfiler.collectGarbage")
        used = cdp.send("Runtime.getHeapUsage")["usedSize"]
        self.heap_mib.append(used / 1024**2)
        self.process_mib.append(max(_resident_mib(pid) for pid in browser.renderers()))
        self.elements.append(page.evaluate("document.querySelectorAll('*').length"))


def _resident_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0
