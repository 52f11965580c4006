"""A server that comes back with an empty database: what runs is left alone, said, and taken up again on request."""

import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from real.gemma import model_path
from real.house import House, wait_for

pytestmark = pytest.mark.slow


def test_engines_outlive_a_lost_database_and_serve_again_when_their_catalog_is_applied(
    make_house: Callable[..., House],
) -> None:
    house = make_house()
    house.start_server()
    house.start_agent("n1")
    weights = f"file://{model_path()}"
    profile = {"name": "cpu", "engine": "llama.cpp", "weights": weights, "context": 512, "parallel": 1}
    catalog = {"models": [{"name": "gemma-270m", "profiles": [profile]}]}
    house.apply(catalog)
    [before] = house.wait_ready("gemma-270m")
    house.kill("server", signal.SIGTERM)
    shutil.rmtree(house.root / "server")

    house.start_server()
    house.wait_node("n1", "ready")
    status = wait_for("the stranger is named", lambda: _problems(house, "gemma-270m.0.0"))
    alive = Path(f"/proc/{before['pid']}").exists()
    house.apply(catalog)
    [after] = house.wait_ready("gemma-270m")
    gone = house.apply({"models": []}, "--prune").stdout

    assert "restore the right database" in status[0]
    assert alive
    assert (after["pid"], after["stale"]) == (before["pid"], "current")
    assert "removed gemma-270m" in gone
    wait_for("the engine ended", lambda: not Path(f"/proc/{before['pid']}").exists(), 30)


def _problems(house: House, named: str) -> list[str]:
    return [problem for problem in house.json("status")["problems"] if named in problem]
