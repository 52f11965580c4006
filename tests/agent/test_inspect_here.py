"""`llmgw agent inspect` as a process: on this very machine, and with a driver that a test steers."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from real.fake_driver import GIB, H100, FakeDriver

pytestmark = pytest.mark.slow

# Memory that is free, and a disk's, change while a test looks at them.
NEAR = 0.1


def inspect(
    tmp_path: Path,
    *options: str,
    environment: dict[str, str] | None = None,
    code: int = 0,
    **settings: object,
) -> subprocess.CompletedProcess[str]:
    config = tmp_path / "agent.yaml"
    config.write_text(yaml.safe_dump({"state_dir": str(tmp_path / "state" / "deeper")} | settings))
    done = subprocess.run(
        [sys.executable, "-m", "llmgw", "agent", "inspect", "--config", str(config), *options],
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | (environment or {}),
        check=False,
    )
    assert done.returncode == code, done.stderr
    return done


def said(tmp_path: Path, *options: str, **given: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(inspect(tmp_path, "--json", *options, **given).stdout)
    return found


def lscpu() -> dict[str, str]:
    done = subprocess.run(
        ["lscpu"], capture_output=True, text=True, check=True, timeout=30, env=os.environ | {"LC_ALL": "C"}
    )
    pairs = (line.partition(":") for line in done.stdout.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def test_the_processor_is_what_lscpu_says(tmp_path: Path) -> None:
    cpu, known = said(tmp_path)["machine"]["processor"], lscpu()

    flags = set(known["Flags"].split())
    assert cpu["architecture"] == known["Architecture"]
    assert cpu["model"] == known.get("Model name") or known["Architecture"] != "x86_64"
    assert 1 <= cpu["cores"] <= int(known["CPU(s)"])
    assert set(cpu["vector"]) <= flags
    assert ("avx2" in cpu["vector"]) == ("avx2" in flags)


def test_memory_is_what_the_kernel_says(tmp_path: Path) -> None:
    memory = said(tmp_path)["machine"]["memory"]

    words = dict(re.findall(r"^(\w+):\s+(\d+) kB$", Path("/proc/meminfo").read_text(), re.MULTILINE))
    total, available = int(words["MemTotal"]) * 1024, int(words["MemAvailable"]) * 1024
    # A cgroup may give this process less than the machine has, and never more.
    assert 0 < memory["total_bytes"] <= total
    assert memory["available_bytes"] <= available + NEAR * total
    if memory["total_bytes"] == total:
        assert memory["available_bytes"] == pytest.approx(available, abs=NEAR * total)


def test_the_disk_is_what_df_says_though_the_folder_is_not_made_yet(tmp_path: Path) -> None:
    [disk] = said(tmp_path)["machine"]["filesystems"]

    df = subprocess.run(
        ["df", "--block-size=1", "--output=source,fstype,size,avail,target", str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    device, kind, size, free, mount = df.stdout.splitlines()[1].split()
    assert not (tmp_path / "state").exists()
    assert (disk["device"], disk["kind"], disk["mount"]) == (device, kind, mount)
    assert (disk["total_bytes"], disk["shared"], disk["holds"][0]) == (int(size), False, "state")
    assert disk["free_bytes"] == pytest.approx(int(free), abs=NEAR * int(size))


def test_a_machine_without_a_driver_says_that_it_has_no_gpus(tmp_path: Path) -> None:
    (tmp_path / "machine").mkdir()
    words = inspect(tmp_path, "--root", str(tmp_path / "machine"), environment={"PATH": "/usr/bin:/bin"})

    assert "GPU driver    none" in words.stdout
    assert "GPUs:\n  none" in words.stdout
    assert words.stderr == ""


def test_two_gpus_one_of_them_held_by_somebody_else_are_shown(tmp_path: Path) -> None:
    driver = FakeDriver(tmp_path)
    holder = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        held = {"uuid": "GPU-2", "free": 60 * GIB, "processes": f"{holder.pid}:{19 * GIB}"}
        driver.says(H100 | {"uuid": "GPU-1", "processes": ""}, H100 | held)
        words = inspect(tmp_path, environment=driver.environment).stdout
        machine = said(tmp_path, environment=driver.environment)["machine"]
    finally:
        holder.kill()
        holder.wait()

    command = Path(sys.executable).name[:15]
    assert [(gpu["uuid"], gpu["gpu_class"]) for gpu in machine["gpus"]] == [
        ("GPU-1", "h100-80gb-hbm3"),
        ("GPU-2", "h100-80gb-hbm3"),
    ]
    assert machine["gpus"][0]["foreign"] == []
    assert machine["gpus"][1]["foreign"] == [{"pid": holder.pid, "command": command, "held_bytes": 19 * GIB}]
    assert "GPU driver    570.124.06 (CUDA 12.8)" in words
    assert "0  NVIDIA H100 80GB HBM3 (h100-80gb-hbm3), GPU-1" in words
    assert f"held by pid {holder.pid} ({command}), not ours: 19.0 GiB" in words


def test_engines_fabrics_and_what_is_wrong_with_them_are_told(tmp_path: Path) -> None:
    words = inspect(
        tmp_path,
        engines={"llama.cpp": "/nowhere/llama-server"},
        fabrics={"ib-a": "mlx5_77"},
        node="gpu-07",
        address="10.0.0.7",
    ).stdout

    assert "node          gpu-07" in words
    assert "address       10.0.0.7" in words
    assert "ib-a through mlx5_77: not attached: there is no adapter mlx5_77" in words
    assert "llama.cpp - at /nowhere/llama-server: there is no file /nowhere/llama-server" in words
    assert words.count("llama.cpp at /nowhere/llama-server cannot be used") == 1


def test_a_configuration_that_cannot_be_used_is_refused_in_words(tmp_path: Path) -> None:
    done = inspect(tmp_path, code=1, node="two words")

    assert done.stdout == ""
    assert done.stderr.startswith("llmgw agent: ")
    assert "node name 'two words' is not usable" in done.stderr


def test_an_agent_without_a_verb_still_runs_and_an_unknown_verb_is_a_usage_error(tmp_path: Path) -> None:
    config = tmp_path / "agent.yaml"
    config.write_text("node: -dash\n")
    program = [sys.executable, "-m", "llmgw", "agent"]

    ran = subprocess.run(
        [*program, "--config", str(config)], capture_output=True, text=True, timeout=60, check=False
    )
    unknown = subprocess.run([*program, "inspct"], capture_output=True, text=True, timeout=60, check=False)

    assert (ran.returncode, "'-dash' is not usable" in ran.stderr) == (1, True)
    assert (unknown.returncode, "No such command 'inspct'" in unknown.stderr) == (2, True)
