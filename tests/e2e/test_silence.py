"""An agent that is killed: its node goes unreachable, then lost, and comes back with the very engine it left."""

from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from real.gemma import model_path
from real.house import House, wait_for

pytestmark = pytest.mark.slow


def test_a_killed_agent_is_unreachable_then_lost_then_ready_again_with_one_engine(
    make_house: Callable[..., House],
) -> None:
    house = make_house()
    house.start_server(
        nodes={"heartbeat": "500ms", "unreachable_after": "2s", "lost_after": "3s", "start_grace": "5s"}
    )
    house.start_agent("n1")
    profile = {
        "name": "cpu",
        "engine": "llama.cpp",
        "weights": f"file://{model_path()}",
        "context": 512,
        "parallel": 1,
    }
    house.apply({"models": [{"name": "gemma-270m", "profiles": [profile]}]})
    [before] = house.wait_ready("gemma-270m")
    key = house.ctl("keys", "create", "tests").stdout.strip()

    house.kill("n1")
    unreachable = house.wait_node("n1", "unreachable")
    table = house.ctl("nodes").stdout
    body = {"model": "gemma-270m", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2}
    served = httpx.post(
        f"{house.url}/chat/completions", json=body, headers={"authorization": f"Bearer {key}"}, timeout=30
    )
    lost = house.wait_node("n1", "lost")
    assert Path(f"/proc/{before['pid']}").exists()
    house.start_agent("n1")
    house.wait_node("n1", "ready")

    def adopted() -> bool:
        rows = house.replicas("gemma-270m")
        return len(rows) == 1 and rows[0]["phase"] == "ready" and rows[0]["node"] == "n1"

    wait_for("the engine is known again", adopted, 60)
    [after] = house.replicas("gemma-270m")
    engines = [pid for pid in house.marked() if b"gguf" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    assert served.status_code == 200
    assert unreachable["since"] <= lost["since"]
    assert "unreachable" in table
    assert (after["pid"], after["generation"]) == (before["pid"], before["generation"])
    assert engines == [before["pid"]]
