"""Nodes that change while server and agent run: memory that grows, a GPU that falls out."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from real.fake_driver import GIB, H100, FakeDriver
from real.house import House, wait_for

pytestmark = pytest.mark.slow

KIB = 1024
LOST = 15
ENGINE = Path(__file__).parents[1] / "fakes" / "engine_program.py"


def an_engine(folder: Path) -> str:
    """Make a program that passes for llama-server."""
    program = folder / "llama-server"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -I {ENGINE} "$@"\n')
    program.chmod(0o755)
    return str(program)


def a_model(name: str, **profile: Any) -> dict[str, Any]:
    given = {"name": "p", "engine": "llama.cpp", "args": []} | profile
    return {"name": name, "profiles": [given]}


def has_memory(root: Path, gib: int) -> None:
    """Write /proc/meminfo of a machine, whole or not at all."""
    folder = root / "proc"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "new").write_text(f"MemTotal: {gib * GIB // KIB} kB\nMemAvailable: {gib * GIB // KIB} kB\n")
    (folder / "new").replace(folder / "meminfo")


def event_texts(house: House, node: str) -> list[str]:
    return [event["text"] for event in house.json("node", node)["events"]]


def test_a_node_whose_memory_grows_becomes_a_candidate_with_nothing_restarted(
    make_house: Callable[..., House], tmp_path: Path
) -> None:
    house, root = make_house(), tmp_path / "machine"
    has_memory(root, 3)
    weights = tmp_path / "weights.gguf"
    weights.write_bytes(b"GGUF")
    house.start_server(nodes={"heartbeat": "1s"})
    house.start_agent("n1", "--root", str(root), engines={"llama.cpp": an_engine(tmp_path)})
    house.wait_node("n1", "ready")
    house.apply({"models": [a_model("large", weights=f"file://{weights}", min_memory_gb=8)]})
    refused = wait_for("the model is refused", lambda: house.json("explain", "large")["why_not"])

    has_memory(root, 9)
    house.wait_ready("large")

    pids = {name: process.poll() for name, process in house.processes.items()}
    [qualified] = [text for text in event_texts(house, "n1") if "now qualifies" in text]
    assert "needs 8.0 GiB of memory" in refused
    assert "has 3.0 GiB free of 3.0 GiB" in refused
    assert qualified == "now qualifies for large: memory 3.0 GiB -> 9.0 GiB"
    assert f"node n1: {qualified}" in house.log("server")
    assert "memory is 9.0 GiB, was 3.0 GiB" in event_texts(house, "n1")
    assert pids == {"server": None, "n1": None}
    assert not [text for text in event_texts(house, "n1") if "connected again" in text]


def test_a_gpu_that_is_held_by_others_and_one_that_falls_out_are_named_in_verdicts_and_events(
    make_house: Callable[..., House], tmp_path: Path
) -> None:
    house, driver = make_house(), FakeDriver(tmp_path)
    holder = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        free = H100 | {"uuid": "GPU-free", "processes": ""}
        held = H100 | {"uuid": "GPU-held", "free": 60 * GIB, "processes": f"{holder.pid}:{19 * GIB}"}
        driver.says(free, held)
        house.before["n1"] = ("env", *(f"{key}={value}" for key, value in driver.environment.items()))
        house.start_server(nodes={"heartbeat": "1s"})
        house.start_agent("n1", engines={"llama.cpp": an_engine(tmp_path)})
        house.wait_node("n1", "ready")
        profile = {"weights": "file:///srv/none.gguf", "min_memory_gb": 0.1, "min_gpu_memory_gb": 70}
        house.apply({"models": [a_model("pair", gpus=2, **profile)]})

        def verdict(word: str) -> Any:
            [node] = house.json("explain", "pair")["nodes"]
            return word in str(node["verdict"]) and node["verdict"]

        full = wait_for("the verdict names who holds the memory", lambda: verdict(f"pid {holder.pid}"))
        before = house.node("n1")
        driver.says(free | {"error": LOST}, held)
        lost = wait_for("the verdict names the lost GPU", lambda: verdict("GPU is lost"))
        after, events = house.node("n1"), event_texts(house, "n1")
        shown = house.ctl("node", "n1").stdout
        table = house.ctl("nodes").stdout
        driver.says(free, held)
        wait_for("it is back", lambda: [text for text in event_texts(house, "n1") if "used again" in text])
    finally:
        holder.kill()
        holder.wait()

    assert (before["gpu_sums"]["free"], before["gpu_driver"], before["cuda"]) == (1, "570.124.06", "12.8")
    assert [gpu["state"] for gpu in before["gpus"]] == ["free", "taken"]
    command = Path(sys.executable).name[:15]
    assert full["had"].endswith(
        f"gpu 1: 60.0 GiB free of 80.0 GiB (pid {holder.pid} ({command}) holds 19.0 GiB)"
    )
    assert lost["rule"] == "gpus"
    assert "gpu 0" in lost["had"]
    assert [gpu["state"] for gpu in after["gpus"]] == ["broken", "taken"]
    told = [text for text in events if text.startswith("GPU 0 (NVIDIA H100 80GB HBM3, GPU-free)")]
    assert [text.partition(": ")[2].partition(";")[0] for text in told] == ["GPU is lost"]
    assert "not used: GPU is lost" in shown
    assert f"held by pid {holder.pid}" in shown
    assert "0 of 2" in table
    assert "the GPUs of this node changed" in house.log("n1")
    assert not [text for text in events if "connected again" in text]
