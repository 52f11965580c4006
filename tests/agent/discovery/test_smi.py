"""nvidia-smi: its CSV from several drivers and parts, and a program that behaves like it."""

import sys
from pathlib import Path

import pytest

from llmgw.agent.discovery.gpus.smi import (
    FIELDS,
    Failed,
    Smi,
    parse_gpu,
    parse_holders,
    parse_rows,
    parse_slices,
    sliced,
    unknown_field,
)
from llmgw.core.fleet.hardware import Gpu, GpuProcess
from llmgw.core.units import GIB, MIB

SAID = Path(__file__).parents[2] / "fixtures" / "nvidia-smi"
FIRST = "GPU-5f3a0c0e-1d1f-9f0c-6f0e-7d1c2f6a8b01"
SECOND = "GPU-0b6d1c7e-52c3-4a0e-b8a7-3f0c9b7d2e02"


def gpus_of(name: str) -> list[Gpu | None]:
    return [parse_gpu(row) for row in parse_rows((SAID / name).read_text(), FIELDS)]


def a_program(folder: Path, body: str) -> str:
    """Make a program of a few lines of Python, which see the arguments as `given`."""
    path = folder / "nvidia-smi"
    path.write_text(f"#!{sys.executable} -I\nimport sys\ngiven = ' '.join(sys.argv[1:])\n{body}\n")
    path.chmod(0o755)
    return str(path)


def test_a_row_that_says_everything_is_read_whole() -> None:
    assert gpus_of("two-gpus.csv")[1] == Gpu(
        uuid=SECOND,
        name="NVIDIA H100 80GB HBM3",
        gpu_class="h100-80gb-hbm3",
        index=1,
        total_bytes=81559 * MIB,
        free_bytes=1204 * MIB,
        utilization=0.97,
        ecc=True,
        ecc_errors=3,
    )


def test_what_a_part_does_not_have_is_unknown() -> None:
    [gpu] = gpus_of("geforce.csv")

    assert gpu is not None
    assert (gpu.gpu_class, gpu.ecc, gpu.ecc_errors, gpu.utilization) == ("geforce-rtx-4090", None, None, 0.12)


def test_short_rows_of_an_old_driver_cost_only_what_they_leave_out() -> None:
    first, second = gpus_of("old-driver.csv")

    assert first is not None
    assert second is not None
    assert (first.name, first.free_bytes, first.utilization) == ("Tesla K80", 11441 * MIB, None)
    assert (second.total_bytes, second.free_bytes) == (11441 * MIB, None)


def test_a_part_that_shares_main_memory_is_known_by_its_name() -> None:
    [gpu] = gpus_of("unified.csv")

    assert gpu is not None
    assert (gpu.unified, gpu.total_bytes) == (True, None)


def test_a_lost_gpu_says_so() -> None:
    good, lost = gpus_of("lost.csv")

    assert good is not None
    assert lost is not None
    assert (good.problem, lost.problem) == (None, "GPU is lost, says nvidia-smi")
    assert (lost.total_bytes, lost.ecc) == (None, None)


@pytest.mark.parametrize("text", ["", "No devices were found", "\0,\xff", "0, , ,", "one, two, three"])
def test_lines_that_are_no_gpus_are_none(text: str) -> None:
    assert [gpu for row in parse_rows(text, FIELDS) if (gpu := parse_gpu(row))] == []


def test_slices_take_the_place_of_the_gpu_that_is_sliced() -> None:
    rows = parse_rows((SAID / "mig.csv").read_text(), FIELDS)
    gpus = tuple(gpu for row in rows if (gpu := parse_gpu(row)))

    large, small, bare = sliced(gpus, rows, parse_slices((SAID / "mig-list.txt").read_text()))

    assert (large.uuid, large.slice_of) == ("MIG-1f2e3d4c-5b6a-5978-8796-a5b4c3d2e1f0", FIRST)
    assert (small.gpu_class, small.total_bytes) == ("a100-sxm4-40gb-mig-1g.5gb", None)
    assert (bare.uuid, "lists no slices" in (bare.problem or "")) == (SECOND, True)


def test_who_holds_memory_is_told_by_gpu() -> None:
    held = parse_holders((SAID / "processes.csv").read_text())

    assert held == {
        SECOND: (GpuProcess(pid=4711, held_bytes=78902 * MIB), GpuProcess(pid=4712, held_bytes=None))
    }


def test_a_field_that_a_driver_does_not_know_is_asked_for_no_more(tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    body = f"""
open({str(asked)!r}, "a").write(given + "\\n")
if "compute-apps" in given:
    print("{FIRST}, 4711, 100")
elif "mig.mode" in given:
    print('Field "mig.mode.current" is not a valid field to query.')
    sys.exit(2)
else:
    print("0, {FIRST}, Tesla V100-SXM2-32GB, 32768, 1024, 418.40, Enabled, 0, 7")
"""
    smi = Smi(a_program(tmp_path, body))

    first, again = smi.look(), smi.look()

    assert not isinstance(first, Failed)
    assert (first, first.driver) == (again, "418.40")
    assert [(gpu.free_bytes, gpu.utilization, gpu.ecc) for gpu in first.gpus] == [(GIB, 0.07, True)]
    assert first.holders == {FIRST: (GpuProcess(pid=4711, held_bytes=100 * MIB),)}
    assert asked.read_text().count("mig.mode.current") == 1


def test_a_driver_that_does_not_tell_who_holds_memory_leaves_it_unknown(tmp_path: Path) -> None:
    row = (SAID / "geforce.csv").read_text().strip()
    body = f"""
if "compute-apps" in given:
    sys.exit(6)
print({row!r})
"""
    seen = Smi(a_program(tmp_path, body)).look()

    assert not isinstance(seen, Failed)
    assert (len(seen.gpus), seen.holders) == (1, {})


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("print('NVIDIA-SMI has failed.'); sys.exit(9)", "nvidia-smi: NVIDIA-SMI has failed."),
        ("sys.exit(18)", "nvidia-smi: status 18"),
        ("import time; time.sleep(600)", "nvidia-smi did not answer within 0.5 s"),
    ],
)
def test_a_program_that_tells_nothing_is_quoted(tmp_path: Path, body: str, words: str) -> None:
    program = a_program(tmp_path, body)

    failed = Smi(program, limit_s=0.5 if "sleep" in body else 30.0).look()

    assert isinstance(failed, Failed)
    assert failed.words.replace(str(tmp_path) + "/", "") == words


def test_a_program_that_is_not_there_is_no_fault_of_the_look(tmp_path: Path) -> None:
    smi = Smi(str(tmp_path / "none"))

    assert not smi.is_there()
    assert smi.look() == Failed(f"{tmp_path}/none cannot be run: No such file or directory")


def test_only_the_complaint_about_a_field_names_one() -> None:
    assert unknown_field('Field "utilization.gpu" is not a valid field to query.') == "utilization.gpu"
    assert unknown_field("Failed to initialize NVML: Driver/library version mismatch") is None
