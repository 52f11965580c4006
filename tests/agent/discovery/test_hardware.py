"""Processor, memory and system, from recorded machines."""

from pathlib import Path

import pytest

from llmgw.agent.discovery.hardware import (
    Limit,
    core_quotas,
    limited,
    parse_cgroups,
    parse_cpuinfo,
    parse_meminfo,
    parse_os_release,
    read_cores,
    read_machine,
    read_memory,
)
from llmgw.core.fleet.hardware import Memory
from llmgw.core.units import GIB, KIB

MACHINES = Path(__file__).parents[2] / "fixtures" / "machines"


def recorded(machine: str, path: str) -> str:
    return (MACHINES / machine / path).read_text()


def test_memory_is_what_the_kernel_says() -> None:
    assert parse_meminfo(recorded("here", "proc/meminfo")).total_bytes == 24684092 * KIB


@pytest.mark.parametrize("text", ["", "MemTotal", "MemTotal: many kB\nMemAvailable:\n", "\0\xff"])
def test_memory_that_nobody_said_is_unknown_and_not_zero(text: str) -> None:
    assert parse_meminfo(text) == Memory()


def test_the_least_limit_above_a_process_counts_in_the_unified_hierarchy() -> None:
    memory = read_memory(MACHINES / "container-v2")

    assert memory.total_bytes == 8 * GIB
    # 6 GiB are used, of which 3 GiB are a cache that is given back when it is asked for.
    assert memory.available_bytes == 5 * GIB


def test_a_container_of_the_old_hierarchy_sees_its_limit_at_the_root() -> None:
    memory = read_memory(MACHINES / "container-v1")

    assert memory.total_bytes == 4 * GIB
    assert memory.available_bytes == 4 * GIB - (1024 - 512) * 1024**2


def test_a_limit_larger_than_the_machine_changes_nothing() -> None:
    memory = Memory(total_bytes=10, available_bytes=5)

    assert limited(memory, [Limit(most_bytes=100, used_bytes=1)]) == memory


def test_a_full_cgroup_has_nothing_available() -> None:
    memory = limited(Memory(total_bytes=100, available_bytes=50), [Limit(most_bytes=20, used_bytes=30)])

    assert memory == Memory(total_bytes=20, available_bytes=0)


def test_cgroups_are_read_by_controller() -> None:
    text = "9:name=systemd:/\n4:memory:/a\n3:cpu,cpuacct:/b\n0::/c:d\nnothing\n"

    assert parse_cgroups(text) == {
        "name=systemd": "/",
        "memory": "/a",
        "cpu": "/b",
        "cpuacct": "/b",
        "": "/c:d",
    }


def test_the_processor_has_a_name_and_its_vector_extensions() -> None:
    model, vector = parse_cpuinfo(recorded("here", "proc/cpuinfo"))

    assert model == "AMD EPYC"
    assert vector == ("sse4_2", "avx", "f16c", "fma", "avx2", "bmi2")


def test_an_arm_processor_says_no_name_and_its_own_extensions() -> None:
    assert parse_cpuinfo(recorded("arm", "proc/cpuinfo")) == (None, ("asimd", "asimddp", "fphp", "asimdhp"))


def test_a_processor_that_says_nothing_has_unknown_extensions() -> None:
    assert parse_cpuinfo("") == (None, None)


def test_time_that_a_cgroup_gives_limits_the_cores() -> None:
    assert list(core_quotas(MACHINES / "container-v2")) == [1.5]
    assert list(core_quotas(MACHINES / "container-v1")) == [0.5]
    assert read_cores(MACHINES / "container-v1") == 1


def test_a_system_names_itself() -> None:
    assert (parse_os_release(recorded("here", "etc/os-release")) or "").startswith("Debian GNU/Linux")
    assert parse_os_release("PRETTY_NAME=\nX=1") is None


def test_a_machine_on_which_nothing_can_be_read_is_still_described(tmp_path: Path) -> None:
    machine = read_machine("h", tmp_path)

    assert machine.hostname == "h"
    assert machine.kernel
    assert machine.memory == Memory()
    assert machine.processor.model is None
