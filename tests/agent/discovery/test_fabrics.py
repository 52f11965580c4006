"""Fast networks from a /sys that a test wrote."""

from pathlib import Path

import pytest

from llmgw.agent.discovery.fabrics import parse_state, read_adapters, read_fabrics
from llmgw.core.fleet.hardware import Fabric

RATE = "400 Gb/sec (4X NDR)"


def a_port(root: Path, adapter: str, number: int = 1, *, state: str = "4: ACTIVE", **files: str) -> None:
    port = root / "sys/class/infiniband" / adapter / "ports" / str(number)
    port.mkdir(parents=True)
    for name, text in ({"state": state, "phys_state": "5: LinkUp", "rate": RATE} | files).items():
        (port / name).write_text(f"{text}\n")


def test_an_adapter_whose_link_is_up_is_attached(tmp_path: Path) -> None:
    a_port(tmp_path, "mlx5_0")

    found = read_fabrics({"ib-a": "mlx5_0"}, tmp_path)

    assert found == (Fabric(name="ib-a", adapter="mlx5_0", attached=True, rate=RATE),)


def test_an_adapter_whose_link_is_down_says_how_it_stands(tmp_path: Path) -> None:
    a_port(tmp_path, "mlx5_0", state="1: DOWN", phys_state="2: Polling", rate="10 Gb/sec (4X SDR)")
    a_port(tmp_path, "mlx5_0", 2, state="2: INIT")

    [fabric] = read_fabrics({"ib-a": "mlx5_0"}, tmp_path)

    assert (fabric.attached, fabric.rate) == (False, None)
    assert fabric.problem == "port 1 is DOWN (Polling), port 2 is INIT (LinkUp)"


def test_one_port_can_be_meant(tmp_path: Path) -> None:
    a_port(tmp_path, "mlx5_0", state="1: DOWN", phys_state="3: Disabled")
    a_port(tmp_path, "mlx5_0", 2)

    first, second, third = read_fabrics({"a": "mlx5_0:1", "b": "mlx5_0:2", "c": "mlx5_0:3"}, tmp_path)

    assert (first.attached, first.problem) == (False, "port 1 is DOWN (Disabled)")
    assert (second.attached, second.adapter) == (True, "mlx5_0:2")
    assert third.problem == "adapter mlx5_0 has no port 3"


def test_an_adapter_that_is_not_there_is_told_with_those_that_are(tmp_path: Path) -> None:
    a_port(tmp_path, "mlx5_1")
    behind = tmp_path / "sys/class/net/ib0/device/infiniband/mlx5_1"
    behind.mkdir(parents=True)

    missing, interface = read_fabrics({"ib-a": "mlx5_0", "ib-b": "ib0"}, tmp_path)
    [bare] = read_fabrics({"ib-a": "mlx5_0"}, tmp_path / "other")

    assert missing.problem == "there is no adapter mlx5_0; there are mlx5_1; correct fabrics in agent.yaml"
    assert interface.problem == (
        "ib0 is a network interface; name its adapter, mlx5_1, under fabrics in agent.yaml"
    )
    assert "there is none on this machine" in (bare.problem or "")


def test_only_what_is_named_counts(tmp_path: Path) -> None:
    a_port(tmp_path, "mlx5_0")
    a_port(tmp_path, "mlx5_1")

    assert set(read_adapters(tmp_path)) == {"mlx5_0", "mlx5_1"}
    assert read_fabrics({}, tmp_path) == ()


@pytest.mark.parametrize(("text", "word"), [("4: ACTIVE\n", "ACTIVE"), ("ACTIVE", "ACTIVE"), ("5:", "5:")])
def test_a_state_is_a_word_behind_a_number(text: str, word: str) -> None:
    assert parse_state(text) == word
