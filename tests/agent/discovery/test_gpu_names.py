"""What catalogs call kinds of GPUs."""

import pytest

from llmgw.agent.discovery.gpus.names import gpu_class, shares_main_memory


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("NVIDIA H100 80GB HBM3", "h100-80gb-hbm3"),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "a100-sxm4-40gb-mig-1g.5gb"),
        ("NVIDIA GeForce RTX 4090", "geforce-rtx-4090"),
        ("Tesla T4", "tesla-t4"),
        ("NVIDIA RTX(TM) 6000 Ada Generation", "rtx-6000-ada-generation"),
        ("AMD Instinct MI300X OAM", "instinct-mi300x-oam"),
        ("NVIDIA", "nvidia"),
        ("  ", None),
        ("®", None),
    ],
)
def test_a_kind_is_the_trade_name_without_its_maker(name: str, kind: str | None) -> None:
    assert gpu_class(name) == kind


def test_parts_without_memory_of_their_own_are_known_by_name() -> None:
    assert shares_main_memory("NVIDIA GB10")
    assert shares_main_memory("Orin (nvgpu)")
    assert not shares_main_memory("NVIDIA GB100")
