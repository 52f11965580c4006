"""AMD GPUs from a /sys that a test wrote."""

from pathlib import Path

import pytest

from llmgw.agent.discovery.gpus import amd
from llmgw.agent.discovery.gpus.sighting import Sighting
from llmgw.core.fleet.hardware import Gpu, GpuProcess
from llmgw.core.units import GIB

UNIQUE = "d2a1c0ffee00beef"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


def a_card(root: Path, number: int = 0, **files: str) -> Path:
    device = root / f"sys/class/drm/card{number}/device"
    given = {"vendor": "0x1002", "device": "0x74a1", "mem_info_vram_total": str(192 * GIB)} | files
    for name, text in given.items():
        write(device / name, text)
    return device


def test_a_card_says_what_the_kernel_knows_of_it(tmp_path: Path) -> None:
    device = a_card(
        tmp_path,
        product_name="AMD Instinct MI300X OAM",
        unique_id=UNIQUE,
        mem_info_vram_used=str(2 * GIB),
        gpu_busy_percent="50",
    )
    write(device / "ras/umc_err_count", "ue: 1\nce: 4")
    write(tmp_path / "sys/module/amdgpu/version", "6.10.5")

    seen = amd.look(tmp_path)

    assert seen == Sighting(
        gpus=(
            Gpu(
                uuid=f"GPU-{UNIQUE}",
                vendor="amd",
                name="AMD Instinct MI300X OAM",
                gpu_class="instinct-mi300x-oam",
                index=0,
                total_bytes=192 * GIB,
                free_bytes=190 * GIB,
                utilization=0.5,
                ecc=True,
                ecc_errors=1,
            ),
        ),
        driver="6.10.5",
    )


def test_who_computes_there_is_told_by_the_compute_driver(tmp_path: Path) -> None:
    a_card(tmp_path, unique_id=UNIQUE)
    kfd = tmp_path / "sys/class/kfd/kfd"
    write(kfd / "topology/nodes/0/properties", "cpu_cores_count 96\nunique_id 0")
    write(kfd / "topology/nodes/0/gpu_id", "0")
    write(kfd / "topology/nodes/1/properties", f"simd_count 1216\nunique_id {int(UNIQUE, 16)}")
    write(kfd / "topology/nodes/1/gpu_id", "51110")
    write(kfd / "proc/4711/vram_51110", str(7 * GIB))
    write(kfd / "proc/4712/vram_51110", "0")

    seen = amd.look(tmp_path)

    assert seen.holders == {f"GPU-{UNIQUE}": (GpuProcess(pid=4711, held_bytes=7 * GIB),)}


def test_cards_keep_the_order_of_their_numbers_and_others_are_left_out(tmp_path: Path) -> None:
    for number in (10, 2):
        a_card(tmp_path, number, unique_id=f"{number:016x}")
    write(tmp_path / "sys/class/drm/card1/device/vendor", "0x10de")
    write(tmp_path / "sys/class/drm/card3/device/vendor", "0x1002")
    write(tmp_path / "sys/class/drm/card2-DP-1/status", "connected")

    seen = amd.look(tmp_path)

    assert [(gpu.index, gpu.uuid[-2:]) for gpu in seen.gpus] == [(0, "02"), (1, "0a")]
    assert seen.gpus[0].name == "AMD GPU 0x74a1"
    assert (seen.gpus[0].free_bytes, seen.gpus[0].foreign) == (None, None)


def test_a_card_without_a_number_of_its_own_is_known_by_its_place(tmp_path: Path) -> None:
    place = tmp_path / "sys/devices/pci0000:00/0000:03:00.0"
    write(place / "vendor", "0x1002")
    write(place / "mem_info_vram_total", str(GIB))
    card = tmp_path / "sys/class/drm/card0"
    card.mkdir(parents=True)
    (card / "device").symlink_to(place)

    [gpu] = amd.look(tmp_path).gpus

    assert gpu.uuid == "PCI-0000:03:00.0"


def test_a_machine_without_any_has_none(tmp_path: Path) -> None:
    assert amd.look(tmp_path) == Sighting()


@pytest.mark.parametrize(("text", "count"), [("ue: 12\nce: 3\n", 12), ("", None), ("ue: many", None)])
def test_uncorrected_errors_are_counted(text: str, count: int | None) -> None:
    assert amd.parse_errors(text) == count
