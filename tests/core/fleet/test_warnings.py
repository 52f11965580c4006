"""What makes a node slow or useless."""

import pytest
from fakes.nodes import LLAMA
from msgspec.structs import replace

from llmgw.core.fleet.hardware import Fabric, Gpu, Machine, Processor
from llmgw.core.fleet.warnings import gpu_name, machine_warnings

GPU = Gpu(uuid="GPU-1", name="H100", index=0)


def test_a_machine_that_says_nothing_is_not_warned_of() -> None:
    assert machine_warnings(Machine(), None) == ()


@pytest.mark.parametrize(
    ("processor", "warned"),
    [
        (Processor(architecture="x86_64", vector=("avx",)), True),
        (Processor(architecture="x86_64", vector=("avx", "avx2")), False),
        (Processor(architecture="x86_64"), False),
        (Processor(architecture="aarch64", vector=("asimd",)), False),
    ],
)
def test_only_an_x86_processor_that_says_it_has_no_avx2_is_warned_of(
    processor: Processor, warned: bool
) -> None:
    said = machine_warnings(Machine(processor=processor), (LLAMA,))

    assert ["AVX2" in text for text in said] == [True] * warned


def test_gpus_that_cannot_be_used_and_those_with_errors_are_named() -> None:
    gpus = (replace(GPU, problem="GPU is lost"), replace(GPU, uuid="GPU-2", ecc_errors=1))

    said = machine_warnings(Machine(gpus=gpus), (LLAMA,))

    assert said == (
        "GPU 0 (H100, GPU-1) cannot be used: GPU is lost",
        "GPU 0 (H100, GPU-2) had 1 uncorrected memory error since its driver was loaded",
    )


def test_a_driver_that_says_nothing_is_named_once_for_all_its_gpus() -> None:
    gpus = (replace(GPU, problem="mismatch"), replace(GPU, uuid="GPU-2", problem="mismatch"))

    said = machine_warnings(Machine(gpus=gpus, gpu_problem="mismatch"), (LLAMA,))

    assert said == ("its GPUs cannot be told: mismatch",)


def test_a_network_that_is_named_and_not_attached_is_warned_of() -> None:
    fabrics = (
        Fabric(name="a", adapter="mlx5_0", problem="port 1 is DOWN"),
        Fabric(name="b", adapter="mlx5_1", attached=True),
    )

    said = machine_warnings(Machine(fabrics=fabrics), (LLAMA,))

    assert said == ("it is not attached to fabric a through mlx5_0: port 1 is DOWN",)


def test_no_engine_and_a_broken_one_are_warned_of() -> None:
    broken = replace(LLAMA, problem="libgomp.so.1 is missing")

    assert machine_warnings(Machine(), ()) == (
        "it has no engine; install one there or name it under engines in its agent.yaml",
    )
    assert machine_warnings(Machine(), (LLAMA, broken)) == (
        "llama.cpp at /opt/llama/llama-server cannot be used: libgomp.so.1 is missing",
    )


def test_a_gpu_is_named_as_far_as_it_is_known() -> None:
    assert gpu_name(Gpu(uuid="GPU-9")) == "GPU (GPU-9)"
    assert gpu_name(GPU) == "GPU 0 (H100, GPU-1)"
