"""An agent killed in the middle of a stream costs no token: the engine, its text, its count and its log go on."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from real.gemma import model_path
from real.house import House, wait_for

pytestmark = pytest.mark.slow

ROUNDS = 3
KILLED_AFTER = 5
BODY = {
    "model": "gemma-270m",
    "messages": [{"role": "user", "content": "Count from one to one hundred in words."}],
    "max_tokens": 100,
    "temperature": 0,
    "cache_prompt": False,
    "stream": True,
    "stream_options": {"include_usage": True},
}


def catalog() -> dict[str, Any]:
    profile = {
        "name": "cpu",
        "engine": "llama.cpp",
        "weights": f"file://{model_path()}",
        "context": 1024,
        "parallel": 1,
        # One thread: two that wait for each other crawl on a machine that is busy with other things.
        "args": ["--cache-ram", "0", "--threads", "1", "--threads-batch", "1"],
    }
    return {"models": [{"name": "gemma-270m", "profiles": [profile]}]}


def chunks(house: House, key: str) -> Iterator[dict[str, Any]]:
    """Stream one answer; fails unless it ends as a whole one does."""
    headers = {"authorization": f"Bearer {key}"}
    url = f"{house.url}/chat/completions"
    with httpx.stream("POST", url, json=BODY, headers=headers, timeout=60) as answer:
        assert answer.status_code == 200
        for line in answer.iter_lines():
            if line.startswith("data: {"):
                yield json.loads(line.removeprefix("data: "))
        assert line == "" or line == "data: [DONE]"


def told(house: House, key: str, after_fifth: Callable[[], object]) -> tuple[str, dict[str, Any], int]:
    """Stream one answer; returns its text, its usage, and how many chunks came after the fifth."""
    text, usage, count = "", {}, 0
    for chunk in chunks(house, key):
        count += 1
        if count == KILLED_AFTER:
            after_fifth()
        text += "".join(choice["delta"].get("content") or "" for choice in chunk["choices"])
        usage = chunk.get("usage") or usage
    return text, {name: usage[name] for name in ("prompt_tokens", "completion_tokens")}, count - KILLED_AFTER


def engines(house: House) -> list[int]:
    """Find the engines of the house."""
    return [pid for pid in house.marked() if b"--model" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def test_killing_the_agent_in_the_middle_of_streams_costs_no_token_and_starts_no_second_engine(
    make_house: Callable[..., House],
) -> None:
    house = make_house()
    house.start_server()
    house.start_agent("n1")
    house.apply(catalog())
    [before] = house.wait_ready("gemma-270m")
    key = house.ctl("keys", "create", "tests").stdout.strip()
    log = next((house.root / "n1" / "logs").glob("*.log"))
    undisturbed = told(house, key, lambda: None)
    first_lines, inode = log.read_bytes(), log.stat().st_ino

    for _ in range(ROUNDS):
        killed: list[int] = []
        disturbed = told(house, key, lambda: killed.append(house.kill("n1")))  # noqa: B023 - called in this round
        alone = engines(house)
        house.start_agent("n1")

        def known_again() -> bool:
            rows = house.replicas("gemma-270m")
            return house.node("n1")["state"] == "ready" and [row["phase"] for row in rows] == ["ready"]

        wait_for("the node and its engine are known again", known_again)
        [after] = house.replicas("gemma-270m")
        assert killed == [-9]
        assert disturbed == undisturbed
        assert alone == engines(house) == [before["pid"]] == [after["pid"]]

    assert undisturbed[2] > 50
    assert log.stat().st_ino == inode
    assert log.read_bytes().startswith(first_lines)
    assert log.stat().st_size > len(first_lines)
    assert [path.name for path in log.parent.iterdir()] == [log.name]
