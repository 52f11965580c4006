"""The story of the logs page: an engine fails at two in the morning, and its own words are two clicks away, no ssh."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import expect
from real.browser import chromium
from real.gemma import model_path
from real.house import House, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


def test_a_real_engines_own_words_are_two_clicks_from_the_cluster_page_and_the_same_in_ctl(
    make_house: Callable[..., House], tmp_path: Path
) -> None:
    bad = tmp_path / "bad.gguf"
    # Whole at its head, so that it is taken for a model, and cut off in the middle of its tensors.
    bad.write_bytes(model_path().read_bytes()[: 64 * 1024**2])
    house = make_house()
    house.start_server()
    house.start_agent("n1")
    house.wait_node("n1", "ready")
    profile = {"name": "cpu", "engine": "llama.cpp", "weights": f"file://{bad}", "context": 512}
    house.apply({"models": [{"name": "broken", "profiles": [profile]}]})
    wait_for("the engine fails", lambda: [r for r in house.replicas("broken") if r["phase"] == "failed"], 120)

    with chromium() as browser, browser.context(viewport={"width": 390, "height": 844}) as window:
        page = window.new_page()
        page.goto(f"http://{house.listening['admin']}/")
        page.get_by_role("link", name="Logs of n1", exact=True).click()
        page.get_by_role("navigation", name="Sources").get_by_role(
            "link", name=re.compile(r"broken\.0\.0")
        ).first.click()
        expect(page.locator("#lines .loud").last).to_be_in_viewport(timeout=20_000)
        loud = page.locator("#lines .loud").last.inner_text().strip()

    said = house.ctl("logs", "n1", "--source", "broken.0.0", "-n", "500").stdout
    assert loud in said
    assert "failed to load model" in said
    assert browser.complaints == []
