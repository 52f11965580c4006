"""NVIDIA GPUs through the real bindings of NVML, over a driver's library that says what a test tells it to."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from real.fake_driver import GIB, H100, FakeDriver
from real.gpu_looker import GpuLooker
from real.house import wait_for

from llmgw.agent.discovery.gpus.nvml import cuda_version
from llmgw.agent.processes import MARK
from llmgw.core.fleet.hardware import Gpu, GpuProcess

ONE = H100 | {"uuid": "GPU-1"}
TWO = H100 | {"uuid": "GPU-2"}
LOST, RESET, MISMATCH, UNKNOWN = 15, 16, 18, 999

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> FakeDriver:
    return FakeDriver(tmp_path_factory.mktemp("driver"))


@pytest.fixture(scope="module")
def looker(driver: FakeDriver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GpuLooker]:
    with GpuLooker(driver.environment, state_dir=tmp_path_factory.mktemp("state")) as one:
        yield one


def test_a_gpu_says_everything_that_its_driver_tells(driver: FakeDriver, looker: GpuLooker) -> None:
    driver.says(ONE | {"ecc": 1, "ecc_errors": 2, "rows_failed": 0, "mig": 0, "processes": ""})

    seen = looker.look()

    assert seen.gpus == (
        Gpu(
            uuid="GPU-1",
            name="NVIDIA H100 80GB HBM3",
            gpu_class="h100-80gb-hbm3",
            index=0,
            total_bytes=80 * GIB,
            free_bytes=79 * GIB,
            utilization=0.03,
            ecc=True,
            ecc_errors=2,
            foreign=(),
        ),
    )
    assert (seen.driver, seen.cuda, seen.problem) == ("570.124.06", "12.8", None)


def test_what_a_driver_does_not_tell_is_unknown_and_costs_nothing_else(
    driver: FakeDriver, looker: GpuLooker
) -> None:
    driver.says({"uuid": "GPU-1", "total": 8 * GIB, "free": 8 * GIB})

    [gpu] = looker.look().gpus

    assert gpu == Gpu(uuid="GPU-1", index=0, total_bytes=8 * GIB, free_bytes=8 * GIB)


def test_a_part_that_shares_main_memory_has_main_memory(driver: FakeDriver, looker: GpuLooker) -> None:
    n1x = {"uuid": "GPU-2", "name": "NVIDIA N1X", "total": 5, "free": 5}
    driver.says({"uuid": "GPU-1", "name": "NVIDIA GB10"}, n1x)

    gpus = looker.look().gpus

    words = Path("/proc/meminfo").read_text().split()
    machine_bytes = int(words[words.index("MemTotal:") + 1]) * 1024
    assert [gpu.unified for gpu in gpus] == [True, True]
    assert all(0 < (gpu.free_bytes or 0) < (gpu.total_bytes or 0) <= machine_bytes for gpu in gpus)


def test_processes_that_are_no_engines_of_this_agent_are_named_with_what_they_hold(
    driver: FakeDriver, tmp_path: Path
) -> None:
    sleeper = [sys.executable, "-c", "import time; time.sleep(600)"]
    ours = subprocess.Popen(sleeper, env=os.environ | {MARK: str(tmp_path)})
    others = subprocess.Popen(sleeper, env=os.environ | {MARK: "/another/state"})
    try:
        driver.says(ONE | {"processes": f"{ours.pid}:{GIB},{others.pid}:{3 * GIB},999999999:-"})
        with GpuLooker(driver.environment, state_dir=tmp_path) as one:
            seen = one.look()
    finally:
        for process in (ours, others):
            process.kill()
            process.wait()

    command = Path(sys.executable).name[:15]
    foreign = (
        GpuProcess(pid=others.pid, command=command, held_bytes=3 * GIB),
        GpuProcess(pid=999999999, command=None, held_bytes=None),
    )
    assert seen.gpus[0].foreign == foreign
    assert seen.holders["GPU-1"] == (
        GpuProcess(pid=ours.pid, command=command, held_bytes=GIB),
        *foreign,
    )


def test_a_gpu_that_is_lost_keeps_its_name_and_says_why_it_is_not_used(
    driver: FakeDriver, looker: GpuLooker
) -> None:
    driver.says(ONE, TWO)
    before = looker.look()
    driver.says(ONE, TWO | {"error": LOST})
    lost = looker.look()
    driver.says(ONE, TWO | {"error": RESET})
    reset = looker.look()
    driver.says(ONE, TWO)
    back = looker.look()

    assert [gpu.uuid for gpu in lost.gpus] == ["GPU-1", "GPU-2"]
    assert lost.gpus[0] == before.gpus[0]
    assert lost.gpus[1].problem == "GPU is lost; it fell off the bus; restart the machine to get it back"
    assert (lost.gpus[1].total_bytes, lost.gpus[1].free_bytes) == (80 * GIB, None)
    assert (reset.gpus[1].problem or "").startswith("GPU requires restart; reset it with 'nvidia-smi")
    assert back == before


def test_a_gpu_that_never_answered_is_told_of_by_its_number(driver: FakeDriver, tmp_path: Path) -> None:
    driver.says(ONE | {"error": UNKNOWN}, TWO)

    with GpuLooker(driver.environment, state_dir=tmp_path) as one:
        seen = one.look()

    assert [gpu.uuid for gpu in seen.gpus] == ["GPU-2"]
    assert seen.problem == "GPU 0 does not answer: Unknown Error"


def test_memory_that_could_not_be_mended_is_a_problem(driver: FakeDriver, looker: GpuLooker) -> None:
    driver.says(ONE | {"rows_failed": 1})

    [gpu] = looker.look().gpus

    assert "could not be replaced" in (gpu.problem or "")


def test_a_sliced_gpu_is_told_as_its_slices_whatever_their_numbers(
    driver: FakeDriver, looker: GpuLooker
) -> None:
    name = "NVIDIA H100 80GB HBM3 MIG 3g.40gb"
    parts = {
        "1.uuid": "MIG-a",
        "1.name": name,
        "1.total": 40 * GIB,
        "1.free": 39 * GIB,
        "1.processes": "",
        "3.uuid": "MIG-b",
        "3.total": 10 * GIB,
        "3.free": GIB,
    }
    driver.says(ONE | {"mig": 1, "slices": 7, "ecc": 1} | parts, TWO)

    seen = looker.look()

    first, second, whole = seen.gpus
    assert (first.uuid, first.slice_of, first.gpu_class) == ("MIG-a", "GPU-1", "h100-80gb-hbm3-mig-3g.40gb")
    assert (first.total_bytes, first.free_bytes, first.foreign, first.ecc) == (40 * GIB, 39 * GIB, (), True)
    assert (second.uuid, second.slice_of, second.name) == ("MIG-b", "GPU-1", "NVIDIA H100 80GB HBM3")
    assert (second.free_bytes, second.utilization, second.foreign) == (GIB, None, None)
    assert (whole.uuid, whole.slice_of) == ("GPU-2", None)


def test_slices_of_a_gpu_that_is_lost_are_lost_with_it(driver: FakeDriver, looker: GpuLooker) -> None:
    parts = {"mig": 1, "slices": 7, "0.uuid": "MIG-a", "0.total": GIB, "0.free": GIB}
    driver.says(ONE | parts)
    looker.look()
    driver.says(ONE | parts | {"error": LOST})

    [gpu] = looker.look().gpus

    assert (gpu.uuid, (gpu.problem or "")[:11]) == ("MIG-a", "GPU is lost")


def test_a_gpu_in_slices_of_which_there_are_none_is_not_given_out(
    driver: FakeDriver, looker: GpuLooker
) -> None:
    driver.says(ONE | {"mig": 1, "slices": 7})

    [gpu] = looker.look().gpus

    assert "has no slices" in (gpu.problem or "")


def test_an_updated_driver_is_told_in_words_and_leaves_no_gpu_usable(
    driver: FakeDriver, looker: GpuLooker
) -> None:
    driver.says(ONE)
    looker.look()
    driver.says(ONE, init=MISMATCH)
    broken = looker.look()
    driver.says(ONE, driver="580.1")
    mended = looker.look()

    assert "RM has detected an NVML/RM version mismatch" in (broken.problem or "")
    assert "restart the machine" in (broken.problem or "")
    assert [(gpu.uuid, gpu.problem) for gpu in broken.gpus] == [("GPU-1", broken.problem)]
    assert (mended.driver, mended.problem, mended.gpus[0].problem) == ("580.1", None, None)


def test_a_driver_that_hangs_is_given_up_and_believed_again_when_it_answers(
    driver: FakeDriver, tmp_path: Path
) -> None:
    driver.says(ONE)
    with GpuLooker(driver.environment, state_dir=tmp_path, limit_s=1.5) as one:
        before = one.look()
        driver.says(ONE, hang=1)
        hung, still = one.look(), one.look()
        driver.says(ONE)
        after = wait_for("the driver answers again", lambda: (seen := one.look()).problem is None and seen)

    words = "the GPU driver did not answer within 1.5 s"
    assert [(gpu.uuid, gpu.problem) for gpu in hung.gpus] == [("GPU-1", words)]
    assert (hung.problem, still) == (words, hung)
    assert after == before


def test_no_driver_is_no_gpus_unless_one_is_on_the_bus(driver: FakeDriver, tmp_path: Path) -> None:
    (tmp_path / "answers").unlink(missing_ok=True)
    device = tmp_path / "machine/sys/bus/pci/devices/0000:41:00.0"
    device.mkdir(parents=True)
    (device / "vendor").write_text("0x10de\n")
    (device / "class").write_text("0x030200\n")
    absent = driver.environment | {"FAKE_NVML": str(tmp_path / "none")}

    with GpuLooker(absent, state_dir=tmp_path, root=tmp_path / "empty") as bare:
        nothing = bare.look()
    with GpuLooker(absent, state_dir=tmp_path, root=tmp_path / "machine") as other:
        seen = other.look()

    assert (nothing.gpus, nothing.problem) == ((), None)
    assert seen.gpus == ()
    assert seen.problem == (
        "there is an NVIDIA GPU at 0000:41:00.0 and no NVIDIA driver runs; install or load it"
    )


@pytest.mark.parametrize(("number", "version"), [(13040, "13.4"), (12080, "12.8"), (11000, "11.0")])
def test_a_cuda_version_is_written_as_people_write_it(number: int, version: str) -> None:
    assert cuda_version(number) == version
