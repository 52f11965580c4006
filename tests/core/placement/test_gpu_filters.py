from fakes.catalogs import a_profile
from fakes.fleets import a_fleet
from fakes.machines import a_gpu
from fakes.nodes import a_shard, an_introduction

from llmgw.core.fleet.hardware import Gpu, GpuProcess, Machine
from llmgw.core.fleet.shards import Claim, Phase, ShardState
from llmgw.core.placement.demand import demand_of
from llmgw.core.placement.filters import judge
from llmgw.core.placement.need import Need
from llmgw.core.placement.room import Room
from llmgw.core.placement.rooms import rooms_of
from llmgw.core.placement.verdict import Verdict
from llmgw.core.units import GIB


def _room(*gpus: Gpu, shards: tuple[ShardState, ...] = (), **machine: object) -> Room:
    said = an_introduction(machine=Machine(**{"gpus": gpus} | machine), shards=shards)  # type: ignore[arg-type]
    return rooms_of(a_fleet(said))["n1"]


def _judge(room: Room, need: Need | None = None, **given: object) -> Verdict | None:
    return judge(demand_of(a_profile(**{"gpus": 1} | given), need), room)


def _said(verdict: Verdict | None) -> tuple[str, str, str, str]:
    assert verdict is not None
    return verdict.rule, verdict.needed, verdict.had, verdict.would_fit_if


def test_too_few_gpus_are_refused_with_how_many_there_are() -> None:
    assert _said(_judge(_room(a_gpu()), gpus=4)) == ("gpus", "4 GPUs", "1", "it had 3 more")
    assert _said(_judge(_room())) == ("gpus", "1 GPU", "none", "it had 1 more")


def test_a_lost_gpu_does_not_count_and_is_named_with_its_problem() -> None:
    room = _room(a_gpu(0), a_gpu(1, problem="GPU is lost"))

    assert _said(_judge(room, gpus=2)) == (
        "gpus",
        "2 GPUs",
        "1 that can be used; gpu 1 cannot be used: GPU is lost",
        "gpu 1 came back",
    )
    assert _said(_judge(room, gpus=3))[3] == "it had 2 more"


def test_gpus_that_the_node_cannot_tell_are_refused_in_its_words() -> None:
    room = _room(gpus=None, gpu_problem="driver and library do not match")

    assert _said(_judge(room)) == (
        "gpus",
        "1 GPU",
        "none that it can tell of: driver and library do not match",
        "that were mended",
    )


def test_a_node_that_does_not_say_its_gpus_is_not_refused_for_them() -> None:
    silent = _room(gpus=None)

    assert _judge(silent, gpus=8, gpu_class="h100", min_gpu_memory_gb=70) is None


def test_gpus_of_another_class_are_refused_with_what_there_is() -> None:
    room = _room(a_gpu(0), a_gpu(1, gpu_class="a100-40gb"), a_gpu(2, gpu_class="a100-40gb"))

    assert _said(_judge(room, gpus=2, gpu_class="h100")) == (
        "gpu-class",
        "2 GPUs of class h100",
        "2 x a100-40gb, 1 x h100-80gb-hbm3",
        "it had 1 more of that class, or the profile asked for another gpu_class",
    )
    assert _judge(room, gpus=2, gpu_class="a100") is None


def test_memory_that_a_foreign_process_holds_is_refused_with_its_pid_command_and_bytes() -> None:
    process = GpuProcess(pid=4711, command="python3", held_bytes=70 * GIB)
    room = _room(a_gpu(free_gb=9, foreign=(process,)))

    assert _said(_judge(room, min_gpu_memory_gb=20)) == (
        "gpu-memory",
        "1 GPU with 20.0 GiB free",
        "gpu 0: 9.0 GiB free of 80.0 GiB (pid 4711 (python3) holds 70.0 GiB)",
        "pid 4711 (python3) let go of gpu 0",
    )


def test_a_foreign_process_that_holds_too_little_to_matter_is_not_blamed() -> None:
    process = GpuProcess(pid=12)
    room = _room(a_gpu(free_gb=9, foreign=(process,)))

    said = _said(_judge(room, min_gpu_memory_gb=20))

    assert said[2] == "gpu 0: 9.0 GiB free of 80.0 GiB (pid 12 holds -)"
    assert said[3] == "11.0 GiB more were free on gpu 0"


def test_a_gpu_that_a_replica_took_is_refused_with_the_replica() -> None:
    shard = a_shard(claim=Claim(gpus=("GPU-0",)))
    room = _room(a_gpu(), shards=(shard,))

    assert _said(_judge(room)) == (
        "gpu-memory",
        "1 GPU to itself, 90% of the memory free",
        "gpu 0: taken by gemma.0.0",
        "gemma.0.0 left gpu 0",
    )


def test_as_many_foreign_processes_are_named_as_would_have_to_go_and_then_it_fits() -> None:
    holders = tuple(GpuProcess(pid=pid, held_bytes=gib * GIB) for pid, gib in ((1, 10), (2, 30), (3, 20)))
    room, without = _room(a_gpu(free_gb=20, foreign=holders)), _room(a_gpu(free_gb=70, foreign=holders[:1]))

    said = _said(_judge(room, min_gpu_memory_gb=60))

    assert said[3] == "pid 2 and pid 3 let go of gpu 0"
    assert _judge(without, min_gpu_memory_gb=60) is None


def test_who_holds_a_gpu_beside_the_replica_that_took_it_would_have_to_go_too() -> None:
    foreign = (GpuProcess(pid=7, command="python3", held_bytes=30 * GIB),)
    shard = a_shard(claim=Claim(gpus=("GPU-0",)))

    taken = _judge(_room(a_gpu(free_gb=10, foreign=foreign), shards=(shard,)), min_gpu_memory_gb=70)
    enough = _judge(_room(a_gpu(free_gb=10, foreign=foreign), shards=(shard,)), min_gpu_memory_gb=40)
    whole = _judge(_room(a_gpu(free_gb=10, foreign=foreign), shards=(shard,)))

    assert _said(taken)[3] == "gemma.0.0 left gpu 0 and pid 7 (python3) let go of it"
    assert _said(enough)[3] == "gemma.0.0 left gpu 0"
    assert _said(whole)[3] == _said(taken)[3]


def test_a_gpu_that_replicas_share_is_not_given_whole() -> None:
    shard = a_shard(phase=Phase.STARTING, claim=Claim(gpus=("GPU-0",), gpu_bytes=5 * GIB))

    said = _said(_judge(_room(a_gpu(), shards=(shard,))))

    assert said[2] == "gpu 0: 75.0 GiB free of 80.0 GiB (shared with gemma.0.0)"
    assert said[3] == "gemma.0.0 left gpu 0"


def test_a_share_of_the_memory_is_asked_of_each_gpu() -> None:
    room = _room(a_gpu(0, free_gb=79), a_gpu(1, free_gb=70))

    assert _judge(room, Need(gpu_share=0.92)) is None
    assert _said(_judge(room, Need(gpu_share=0.92, gpu_bytes=10 * GIB), gpus=2)) == (
        "gpu-memory",
        "2 GPUs with 10.0 GiB and 92% of the memory free on each",
        "gpu 0: 79.0 GiB free of 80.0 GiB; gpu 1: 70.0 GiB free of 80.0 GiB",
        "3.6 GiB more were free on gpu 1",
    )


def test_gpus_that_are_too_small_in_all_are_told_so() -> None:
    assert _said(_judge(_room(a_gpu()), gpu_class="h100", min_gpu_memory_gb=100))[1:] == (
        "1 GPU of class h100 with 100.0 GiB free",
        "gpu 0: 80.0 GiB free of 80.0 GiB",
        "its GPUs were larger, or the profile asked for less of them",
    )


def test_of_many_gpus_some_are_named_and_the_others_counted_lost_ones_too() -> None:
    gpus = [a_gpu(index, free_gb=1) for index in range(9)]
    lost = a_gpu(9, problem="GPU is lost")

    said = _said(_judge(_room(lost, *gpus), min_gpu_memory_gb=2))

    assert said[2].startswith("gpu 9 cannot be used: GPU is lost; gpu 0: 1.0 GiB free of 80.0 GiB; ")
    assert said[2].endswith("; and 2 more")


def test_memory_that_a_gpu_does_not_tell_refuses_nobody() -> None:
    assert _judge(_room(a_gpu(free_gb=None)), min_gpu_memory_gb=70) is None
    assert _judge(_room(a_gpu(free_gb=None, total_gb=None))) is None
    assert _judge(_room(a_gpu(free_gb=50, total_gb=None)), Need(gpu_share=0.9)) is None


def test_a_gpu_without_a_number_is_named_by_its_uuid() -> None:
    room = _room(a_gpu(index=None, uuid="MIG-7", problem="lost"))

    assert _said(_judge(room))[2] == "0 that can be used; gpu MIG-7 cannot be used: lost"
