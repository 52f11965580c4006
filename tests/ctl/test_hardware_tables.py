"""GPUs, fabrics and weights in ctl's tables."""

import json
from pathlib import Path

import pytest
from fakes.gpu_fleet import gpu_fleet
from fakes.operations import FakeOperations

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(autouse=True)
def _fleet_of_gpus(operations: FakeOperations) -> None:
    operations.reset(None, gpu_fleet())


@pytest.mark.parametrize(
    ("name", "verb"), [("gpu-nodes", ["nodes"]), ("gpu-node", ["node", "gpu-1"]), ("gpu-status", ["status"])]
)
def test_hardware_shows_in_a_verbs_table(ctl, name: str, verb: list[str]) -> None:
    result = ctl(*verb)

    assert (result.exit_code, result.stderr) == (0, "")
    _, _, text = result.stdout.rpartition("(start ")
    assert (text if name == "gpu-status" else result.stdout) == (GOLDEN / f"{name}.txt").read_text()


def test_json_has_each_gpu_with_its_state_and_who_has_it(ctl) -> None:
    found = json.loads(ctl("node", "gpu-1", "--json").stdout)

    assert [gpu["state"] for gpu in found["gpus"]] == ["ours", "taken", "broken", "free"]
    assert [gpu["shards"] for gpu in found["gpus"]] == [["gemma.0.0"], [], [], []]
    assert found["gpu_sums"] == {
        "total": 4,
        "free": 1,
        "total_bytes": 280 * 1024**3,
        "free_bytes": 108 * 1024**3,
    }
    assert found["fabrics"][1]["problem"] == "port 1 is DOWN (Polling)"
    assert [one["complete"] for one in found["weights"]] == [True, False]


def test_a_node_without_gpus_says_that_it_has_none(ctl) -> None:
    bare = json.loads(ctl("node", "gpu-2", "--json").stdout)

    assert (bare["gpus"], bare["gpu_sums"]["total"], bare["gpu_driver"]) == ([], 0, None)
    lines = [line.split() for line in ctl("node", "gpu-2").stdout.splitlines()]
    assert ["GPUs", "free", "none"] in lines
