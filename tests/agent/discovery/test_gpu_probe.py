"""All GPUs of a machine: who is asked, and what is said where nobody answers."""

import sys
from pathlib import Path

import pynvml as nvml
import pytest
from real.fake_driver import H100, FakeDriver
from real.gpu_looker import GpuLooker

from llmgw.agent.discovery.gpus.nvml import Unanswered
from llmgw.agent.discovery.gpus.probe import GpuProbe, driver_version, nvidia_places, nvidia_problem
from llmgw.agent.discovery.gpus.sighting import Sighting, joined
from llmgw.core.fleet.hardware import Gpu, GpuProcess

MISSING = Unanswered(nvml.NVML_ERROR_LIBRARY_NOT_FOUND, "NVML Shared Library Not Found")


def a_machine(root: Path, *, devices: dict[str, tuple[str, str]] | None = None, driver: str = "") -> Path:
    """Write a /sys with PCI devices (vendor, class) and perhaps a driver."""
    for place, (vendor, kind) in (devices or {}).items():
        folder = root / "sys/bus/pci/devices" / place
        folder.mkdir(parents=True)
        (folder / "vendor").write_text(f"{vendor}\n")
        (folder / "class").write_text(f"{kind}\n")
    if driver:
        (root / "sys/module/nvidia").mkdir(parents=True)
        (root / "sys/module/nvidia/version").write_text(f"{driver}\n")
    return root


def test_a_machine_without_a_driver_and_without_nvidias_devices_has_no_problem(tmp_path: Path) -> None:
    root = a_machine(tmp_path, devices={"0000:00:02.0": ("0x8086", "0x030000")})

    assert nvidia_problem(MISSING, root) is None
    assert nvidia_problem(Unanswered(nvml.NVML_ERROR_DRIVER_NOT_LOADED, "Driver Not Loaded"), root) is None


def test_only_gpus_of_nvidias_devices_count(tmp_path: Path) -> None:
    gpu, sound = ("0x10de", "0x030200"), ("0x10de", "0x040300")
    root = a_machine(tmp_path, devices={"0000:41:00.0": gpu, "0000:41:00.1": sound, "0000:01:00.0": gpu})

    assert nvidia_places(root) == ("0000:01:00.0", "0000:41:00.0")
    assert "at 0000:01:00.0, 0000:41:00.0 and no NVIDIA driver runs" in (nvidia_problem(MISSING, root) or "")


def test_a_driver_whose_library_is_missing_is_told(tmp_path: Path) -> None:
    root = a_machine(tmp_path, driver="550.54.15")

    problem = nvidia_problem(MISSING, root) or ""

    assert driver_version(root) == "550.54.15"
    assert problem.startswith("NVML: NVML Shared Library Not Found; the NVIDIA driver 550.54.15 is loaded")
    assert "libnvidia-ml.so.1" in problem


def test_what_else_nvml_answers_is_quoted(tmp_path: Path) -> None:
    answer = Unanswered(nvml.NVML_ERROR_UNKNOWN, "Unknown Error")

    assert nvidia_problem(answer, tmp_path) == "NVML: Unknown Error"


def test_a_library_that_is_none_of_a_driver_is_told_with_what_to_do(tmp_path: Path) -> None:
    answer = Unanswered(nvml.NVML_ERROR_FUNCTION_NOT_FOUND, "Function Not Found")

    assert nvidia_problem(answer, tmp_path) == (
        "NVML: Function Not Found; the libnvidia-ml.so.1 that was found lacks what a driver's own has; install the "
        "driver's, and let no other come before it (LD_LIBRARY_PATH)"
    )


async def test_a_machine_without_gpus_is_no_fault(tmp_path: Path) -> None:
    probe = GpuProbe(tmp_path, set, root=tmp_path)

    seen = await probe.sighting()

    assert (seen.gpus, seen.problem, seen.driver) == ((), None, None)


def test_sightings_of_several_interfaces_are_one() -> None:
    first = Sighting(gpus=(Gpu(uuid="a"),), problem="one", driver="1", holders={"a": (GpuProcess(pid=1),)})
    second = Sighting(gpus=(Gpu(uuid="b"),), driver="2", cuda="3", holders={"b": ()})

    assert joined((first, second)) == Sighting(
        gpus=(Gpu(uuid="a"), Gpu(uuid="b")),
        problem="one",
        driver="1",
        cuda="3",
        holders={"a": (GpuProcess(pid=1),), "b": ()},
    )
    assert joined(()) == Sighting()


@pytest.mark.slow
def test_where_the_library_cannot_be_used_nvidia_smi_is_asked(tmp_path: Path) -> None:
    program = tmp_path / "nvidia-smi"
    row = "0, GPU-1, Tesla T4, 15360, 15000, 535.1, [N/A], Enabled, 0, 5"
    body = f"print('' if 'compute' in sys.argv[1] else {row!r})"
    program.write_text(f"#!{sys.executable} -I\nimport sys\n{body}\n")
    program.chmod(0o755)
    driver = FakeDriver(tmp_path)
    driver.says(H100 | {"uuid": "GPU-1"}, init=nvml.NVML_ERROR_UNKNOWN)

    with GpuLooker(driver.environment | {"PATH": f"{tmp_path}:/usr/bin:/bin"}, state_dir=tmp_path) as one:
        seen = one.look()
        program.write_text(f"#!{sys.executable} -I\nimport sys\nsys.exit('no devices')\n")
        failed = one.look()

    assert [(gpu.gpu_class, gpu.utilization, gpu.foreign) for gpu in seen.gpus] == [("tesla-t4", 0.05, ())]
    assert (seen.driver, seen.problem) == ("535.1", None)
    assert failed.problem == "NVML: Unknown Error; nvidia-smi: no devices"
    assert [(gpu.uuid, gpu.problem) for gpu in failed.gpus] == [("GPU-1", failed.problem)]
