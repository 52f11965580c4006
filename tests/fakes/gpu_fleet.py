"""A small fleet with GPUs in which every kind of trouble with hardware shows once."""

from fakes.fleets import a_fleet
from fakes.nodes import a_shard, an_introduction
from msgspec.structs import replace

from llmgw.core.fleet.hardware import (
    Fabric,
    Filesystem,
    Gpu,
    GpuProcess,
    Machine,
    Memory,
    Processor,
)
from llmgw.core.fleet.shards import Claim
from llmgw.core.fleet.snapshot import Fleet
from llmgw.core.fleet.weights import Holding
from llmgw.core.units import GIB

H100 = Gpu(
    uuid="GPU-0",
    name="NVIDIA H100 80GB HBM3",
    gpu_class="h100-80gb-hbm3",
    index=0,
    total_bytes=80 * GIB,
    free_bytes=8 * GIB,
    utilization=0.93,
    ecc=True,
    ecc_errors=0,
    foreign=(),
)
"""One that a replica has."""
TAKEN = replace(
    H100,
    uuid="GPU-1",
    index=1,
    free_bytes=60 * GIB,
    utilization=0.0,
    ecc_errors=2,
    foreign=(
        GpuProcess(pid=4711, command="python", held_bytes=19 * GIB),
        GpuProcess(pid=4712),
    ),
)
LOST = replace(H100, uuid="GPU-2", index=2, free_bytes=None, utilization=None, problem="GPU is lost")
SLICE = replace(
    H100,
    uuid="MIG-3a",
    index=3,
    total_bytes=40 * GIB,
    free_bytes=40 * GIB,
    utilization=None,
    slice_of="GPU-3",
)


def gpu_fleet() -> Fleet:
    """`gpu-1` has all of it, `gpu-2` has neither GPUs nor weights and its network is up."""
    machine = Machine(
        processor=Processor(architecture="x86_64", cores=64, vector=("avx2",)),
        memory=Memory(total_bytes=512 * GIB, available_bytes=400 * GIB),
        filesystems=(
            Filesystem(
                mount="/",
                device="/dev/nvme0n1p2",
                kind="ext4",
                total_bytes=100 * GIB,
                free_bytes=40 * GIB,
                holds=("state",),
            ),
            Filesystem(
                mount="/mnt/models",
                device="filer:/models",
                kind="nfs4",
                total_bytes=900 * GIB,
                free_bytes=9 * GIB,
                shared=True,
                holds=("models",),
            ),
        ),
        driver="570.124.06",
        cuda="12.8",
        gpus=(H100, TAKEN, LOST, SLICE),
        fabrics=(
            Fabric(name="ib-a", adapter="mlx5_0", attached=True, rate="400 Gb/sec (4X NDR)"),
            Fabric(name="ib-b", adapter="mlx5_1", problem="port 1 is DOWN (Polling)"),
        ),
    )
    weights = (
        Holding(path="/mnt/models/gemma.gguf", size_bytes=2 * GIB, shared=True),
        Holding(path="/state/weights/0abc", source="hf://org/repo/a.gguf", size_bytes=GIB, complete=False),
    )
    ours = a_shard(claim=Claim(gpus=("GPU-0",), gpu_bytes=70 * GIB))
    bare = Machine(
        memory=Memory(total_bytes=8 * GIB, available_bytes=4 * GIB),
        gpus=(),
        fabrics=(Fabric(name="ib-a", adapter="mlx5_0", attached=True),),
    )
    return a_fleet(
        an_introduction("gpu-1", machine=machine, shards=(ours,), weights=weights, version="0.1.0"),
        an_introduction("gpu-2", machine=bare, weights=()),
    )
