"""What a process is told of its GPUs, its network and its place."""

import pytest

from llmgw.core.errors import BadInput
from llmgw.core.fleet.catalog import Profile
from llmgw.core.fleet.shards import Gang
from llmgw.engines.post import (
    ALONE,
    Post,
    device_variables,
    is_named,
    joined,
    mesh_variables,
    variable_problem,
)

NVIDIA, SLICE = "GPU-00000001-0000-0000-0000-000000000000", "MIG-00000002-0000-0000-0000-000000000000"
AMD = "GPU-0123456789abcdef"


def profile(gpus: int = 0, **env: str) -> Profile:
    return Profile(name="p", engine="vllm", weights="file:///w", gpus=gpus, env=env)


@pytest.mark.parametrize(
    ("gpus", "given", "told"),
    [
        (0, (), {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""}),
        (1, (), {}),
        (2, (NVIDIA, SLICE), {"CUDA_VISIBLE_DEVICES": f"{NVIDIA},{SLICE}"}),
        (1, (AMD,), {"ROCR_VISIBLE_DEVICES": AMD}),
    ],
)
def test_a_process_is_shown_its_own_gpus(gpus: int, given: tuple[str, ...], told: dict[str, str]) -> None:
    assert device_variables(profile(gpus), Post(gpus=given)) == told


@pytest.mark.parametrize("given", [(NVIDIA, AMD), ("PCI-0000:03:00.0",), (AMD, "PCI-0000:03:00.0")])
def test_gpus_that_cannot_be_shown_are_named(given: tuple[str, ...]) -> None:
    with pytest.raises(BadInput, match=", ".join(given)):
        device_variables(profile(len(given)), Post(gpus=given))


def test_a_process_alone_is_told_of_no_network() -> None:
    assert mesh_variables(ALONE) == {}


def test_a_rank_whose_interface_nobody_found_is_told_of_none() -> None:
    gang = Gang(addresses=("a", "b"), port=1, fabric="ib", adapters=("mlx5_0,mlx5_1", ""))

    first, second = (mesh_variables(Post(rank=rank, gang=gang)) for rank in (0, 1))

    assert first == {"NCCL_IB_HCA": "=mlx5_0,mlx5_1"}
    assert second == {"NCCL_IB_DISABLE": "1"}


def test_an_address_of_either_kind_is_written_with_its_port() -> None:
    assert (joined("10.0.0.1", 1), joined("fd00::1", 2)) == ("10.0.0.1:1", "[fd00::1]:2")


def test_a_rule_names_a_variable_or_the_beginning_of_some() -> None:
    assert is_named("VLLM_DP_RANK", ("VLLM_DP_*",))
    assert is_named("RANK", ("RANK",))
    assert not is_named("RANKS", ("RANK", "VLLM_*"))


def test_variables_that_choose_ranks_are_refused_and_those_that_choose_gpus_where_there_are_some() -> None:
    assert variable_problem(profile(RANK="1"), ()) is not None
    assert variable_problem(profile(gpus=1, HIP_VISIBLE_DEVICES="0"), ()) is not None
    assert variable_problem(profile(HIP_VISIBLE_DEVICES="0", NCCL_DEBUG="INFO"), ()) is None
