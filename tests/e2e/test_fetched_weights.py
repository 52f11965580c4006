"""Weights that are fetched: to a real token, through an agent's death, and out of the cache again."""

import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from fakes.weights_server import Manner, WeightsServer
from real.gemma import model_path
from real.house import House, wait_for

from llmgw.core.fleet.weights import cache_name_of

pytestmark = pytest.mark.slow

SLOWLY = Manner(pace_s=0.002)
"""Some thirty MiB a second: a download that lasts long enough to be looked at."""


def catalog(*weights: str, replicas: int = 1) -> dict[str, Any]:
    return {
        "models": [
            {
                "name": f"m{number}",
                "replicas": replicas,
                "profiles": [
                    {
                        "name": "cpu",
                        "engine": "llama.cpp",
                        "weights": source,
                        "context": 512,
                        "parallel": 1,
                        "min_memory_gb": 0.5,
                    }
                ],
            }
            for number, source in enumerate(weights)
        ]
    }


@pytest.fixture
def hub() -> Iterator[WeightsServer]:
    with WeightsServer() as hub:
        yield hub


@pytest.fixture
def house(make_house: Callable[[], House]) -> House:
    house = make_house()
    house.start_server()
    return house


def said(house: House, name: str, word: str) -> Callable[[], Any]:
    return lambda: [line for line in house.log(name).splitlines() if word in line]


def progress(house: House) -> list[str]:
    return [line for line in house.ctl("replicas").stdout.splitlines() if line.startswith("  fetching: ")]


def test_a_model_is_fetched_once_with_its_progress_in_sight_and_answers_with_tokens(
    house: House, hub: WeightsServer
) -> None:
    source = hub.serve_hub("org/gemma", "gemma.gguf", model_path().read_bytes(), SLOWLY)
    house.start_agent("n1", weights={"hub": hub.url})
    house.wait_node("n1", "ready")

    house.apply(catalog(source, replicas=2))
    seen = wait_for(
        "progress of both in ctl replicas",
        lambda: len(p := [line for line in progress(house) if " of " in line]) == 2 and p,
    )
    explained = house.ctl("explain", "m0").stdout
    as_json = [one["progress"] for one in house.replicas("m0")]
    house.wait_ready("m0", 2)
    key = house.ctl("keys", "create", "tests").stdout.strip()
    with openai.OpenAI(base_url=house.url, api_key=key, max_retries=0, timeout=60) as client:
        answer = client.chat.completions.create(
            model="m0", messages=[{"role": "user", "content": "Say hello."}], max_tokens=8, temperature=0
        )

    assert all(
        re.fullmatch(r"  fetching: [\d.]+ (?:[KM]i)?B of 2\d\d\.\d MiB(, .*/s, \d+ (s|min) left)?", one)
        for one in seen
    )
    assert "fetching for" in explained
    assert all(one is None or one["total_bytes"] == model_path().stat().st_size for one in as_json)
    assert len(hub.gets()) == 1
    assert answer.usage is not None
    assert answer.usage.completion_tokens > 0
    assert progress(house) == []


def test_the_log_of_a_download_is_followed_while_it_runs_stays_and_is_named_by_who_failed(
    house: House, hub: WeightsServer
) -> None:
    content = bytes(4_000_000)
    lies = hub.serve_hub("org/m", "m.gguf", content, Manner(pace_s=0.03), sha256="0" * 64)
    source = f"fetch:{cache_name_of(lies)}"
    house.start_agent("n1", weights={"hub": hub.url})
    house.wait_node("n1", "ready")

    house.apply(catalog(lies))
    wait_for("progress in ctl replicas", lambda: progress(house))
    meanwhile = house.ctl("logs", "n1", "--source", source).stdout
    failed = wait_for(
        "the download failed", lambda: [row for row in house.replicas("m0") if row["phase"] == "failed"]
    )
    afterwards = house.ctl("logs", "n1", "--source", source).stdout

    assert f"{lies}: its source says 3.8 MiB, sha256:{'0' * 64}" in meanwhile
    assert "cannot be fetched" not in meanwhile
    assert failed[0]["reason"].endswith(f"(its steps: llmgw ctl logs n1 --source {source})")
    assert afterwards.startswith(meanwhile)
    assert "cannot be fetched: " in afterwards
    assert "it was removed" in afterwards


def test_an_agent_that_dies_while_it_fetches_goes_on_where_it_was(house: House, hub: WeightsServer) -> None:
    source = hub.serve_hub("org/gemma", "gemma.gguf", model_path().read_bytes(), SLOWLY)
    house.start_agent("n1", weights={"hub": hub.url})
    house.wait_node("n1", "ready")
    house.apply(catalog(source))
    wait_for("progress in ctl replicas", lambda: progress(house))
    partial = house.root / "n1" / "weights"
    wait_for("bytes on the disk", lambda: [p for p in partial.rglob("*.partial") if p.stat().st_size > 2**20])

    house.kill("n1", signal.SIGKILL)
    house.start_agent("n1", weights={"hub": hub.url})
    house.wait_ready("m0")

    assert len(hub.gets()) == 2
    assert int((hub.gets()[1].range or "").removeprefix("bytes=").rstrip("-")) > 2**20
    assert hub.sent_bytes < model_path().stat().st_size * 1.2


def test_collect_removes_what_nobody_wants_and_nothing_else_and_says_why(
    house: House, hub: WeightsServer, tmp_path: Path
) -> None:
    source = hub.serve_hub("org/gemma", "gemma.gguf", model_path().read_bytes())
    cache = house.root / "n1" / "weights"
    cache.mkdir(parents=True)
    names = {
        word: cache_name_of(f"hf://org/gone/{word}.gguf") or ""
        for word in ("unwanted", "link", "outside", "partial")
    }
    (cache / names["unwanted"]).write_bytes(b"GGUF" * 1000)
    (cache / f"{names['unwanted']}.json").write_text('{"source": "hf://org/gone/unwanted.gguf"}')
    (cache / f"{names['partial']}.part" / "files").mkdir(parents=True)
    (cache / f"{names['partial']}.part" / "files" / f"{names['partial']}.partial").write_bytes(bytes(5000))
    own, precious, outside = cache / "own.gguf", tmp_path / "precious.gguf", tmp_path / names["outside"]
    for path in (own, precious, outside):
        path.write_bytes(b"GGUF" * 10)
    (cache / names["link"]).symlink_to(precious)
    house.start_agent("n1", weights={"hub": hub.url, "also_look_in": [str(tmp_path / "none")]})
    house.wait_node("n1", "ready")
    house.apply(catalog(source))
    house.wait_ready("m0")
    wanted = cache_name_of(source) or ""
    listed = wait_for(
        "the weights are known", lambda: wanted in (text := house.ctl("weights", "--all").stdout) and text
    )

    first = house.ctl("weights", "--collect", code=1).stdout
    second = house.ctl(
        "weights", "--collect", "..", "own.gguf", f"../{names['outside']}", wanted, code=1
    ).stdout

    assert "hf://org/gone/unwanted.gguf" in listed
    assert "an operator's own; llmgw removes only what it fetched" in listed
    assert "an unfinished download that no model of the catalog wants" in listed
    assert f"n1: removed {names['unwanted']}" in first
    assert f"n1: removed {names['partial']}" in first
    assert f"n1: kept {names['link']}: {names['link']} is a link to {precious}" in first
    assert "n1: kept ..: it is a path and no name of the cache" in second
    assert "n1: kept own.gguf: its name is none that llmgw gives, so it is somebody's own file" in second
    assert f"n1: kept ../{names['outside']}: it is a path" in second
    assert f"not asked: kept {wanted}: wanted by m0" in second
    assert sorted(path.name for path in cache.iterdir()) == sorted(
        [wanted, f"{wanted}.json", "own.gguf", names["link"]]
    )
    assert all(path.exists() for path in (own, precious, outside))


def test_a_model_that_leaves_the_catalog_leaves_weights_that_collect_frees(
    house: House, hub: WeightsServer
) -> None:
    source = hub.serve_hub("org/gemma", "gemma.gguf", model_path().read_bytes())
    house.start_agent("n1", weights={"hub": hub.url})
    house.wait_node("n1", "ready")
    house.apply(catalog(source))
    house.wait_ready("m0")
    name = cache_name_of(source) or ""
    house.apply({"models": []}, "--prune")
    wait_for("nothing runs", lambda: not house.replicas())
    wait_for("it is unwanted", lambda: "to remove: 1" in house.ctl("weights").stdout)

    done = house.ctl("weights", "--collect").stdout

    assert done.startswith(f"n1: removed {name}\nfreed 2")
    assert list((house.root / "n1" / "weights").iterdir()) == []
    wait_for("the node says so", lambda: "nothing to remove" in house.ctl("weights").stdout)
