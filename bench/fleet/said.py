"""What a simulated agent says: the frames of a node with eight GPUs, made by the codec that real agents use."""

import functools
import hashlib
import random

from llmgw.core.fleet.catalog import Profile
from llmgw.core.fleet.hardware import (
    EngineInstall,
    Filesystem,
    Gpu,
    GpuProcess,
    Machine,
    Memory,
    Processor,
)
from llmgw.core.fleet.shards import Phase, ShardState
from llmgw.core.fleet.snapshot import Introduction
from llmgw.core.ids import Generation, replica_id, shard_id
from llmgw.wire.codec import encode
from llmgw.wire.frames import PROTOCOL, Heartbeat, Register

GIB = 1 << 30
BEAT_BYTES = 2048
"""How long a heartbeat is on the wire, at least."""
BEATS = 64
"""How many different ones there are; each agent says one after the other, so that each differs from the last."""
GPUS = 8
PER_MODEL = 10
"""Replicas of each model; every node runs one."""
PROFILE = Profile(name="gpu", engine="llama.cpp", weights="file:///srv/models/weights.gguf")


def catalog(nodes: int) -> dict[str, object]:
    """Make the catalog of which `nodes` nodes run everything, as plain data."""
    profile = {"name": PROFILE.name, "engine": PROFILE.engine, "weights": PROFILE.weights}
    count = nodes // PER_MODEL
    models = [
        {"name": _model(number), "replicas": PER_MODEL, "profiles": [profile]} for number in range(count)
    ]
    return {"models": models}


def register(number: int, *, serving: bool) -> bytes:
    """Encode what node `number` registers with.

    Args:
        serving: it runs its replica of the catalog.
    """
    name = f"node-{number:05}"
    machine = Machine(
        hostname=name,
        os="Ubuntu 24.04",
        kernel="6.8.0-45-generic",
        processor=Processor(model="EPYC 9554", architecture="x86_64", cores=128, vector=("avx2", "avx512f")),
        memory=_memory(random.Random(number)),
        filesystems=_filesystems(random.Random(number)),
        driver="570.86.15",
        gpus=_gpus(random.Random(number), processes=0),
        fabrics=(),
    )
    engine = EngineInstall(
        engine="llama.cpp", form="llama-server", path="/opt/llama/llama-server", version="b11434"
    )
    said = Introduction(
        node=name,
        address="127.0.0.1",
        version="0.2.0",
        labels={"rack": f"r{number % 40}"},
        machine=machine,
        engines=(engine,),
        shards=(_shard(number),) if serving else (),
    )
    return encode(Register(protocol=PROTOCOL, instance=f"{number:016x}", said=said))


@functools.cache
def heartbeats() -> tuple[bytes, ...]:
    """Encode heartbeats of a little more than BEAT_BYTES each."""
    return tuple(_heartbeat(random.Random(number)) for number in range(BEATS))


def _heartbeat(chance: random.Random) -> bytes:
    seed = chance.random()
    processes, data = 0, b""
    # The processes on its GPUs that are not ours are what a heartbeat is long by.
    while len(data) < BEAT_BYTES:
        chance.seed(seed)
        processes += 1
        beat = Heartbeat(
            memory=_memory(chance), filesystems=_filesystems(chance), gpus=_gpus(chance, processes=processes)
        )
        data = encode(beat)
    return data


def _memory(chance: random.Random) -> Memory:
    return Memory(total_bytes=1024 * GIB, available_bytes=chance.randrange(512 * GIB, 1000 * GIB))


def _filesystems(chance: random.Random) -> tuple[Filesystem, ...]:
    return tuple(
        Filesystem(
            mount=mount,
            device=f"/dev/nvme{number}n1p2",
            kind="ext4",
            total_bytes=7000 * GIB,
            free_bytes=chance.randrange(7000 * GIB),
            holds=holds,
        )
        for number, (mount, holds) in enumerate((("/", ("state",)), ("/srv", ("weights",))))
    )


def _gpus(chance: random.Random, *, processes: int) -> tuple[Gpu, ...]:
    return tuple(
        Gpu(
            uuid=f"GPU-{hashlib.md5(b'%d' % index, usedforsecurity=False).hexdigest()}",
            name="NVIDIA H100 80GB HBM3",
            gpu_class="h100-80gb-hbm3",
            index=index,
            total_bytes=80 * GIB,
            free_bytes=chance.randrange(80 * GIB),
            utilization=round(chance.random(), 2),
            ecc=True,
            ecc_errors=0,
            foreign=tuple(
                GpuProcess(
                    pid=chance.randrange(1 << 22),
                    command=f"python3 train.py --run {chance.randrange(1 << 48):012x}",
                    held_bytes=chance.randrange(8 * GIB),
                )
                for _ in range(processes)
            ),
        )
        for index in range(GPUS)
    )


def _model(number: int) -> str:
    return f"model-{number:03}"


def _shard(number: int) -> ShardState:
    model, ordinal = _model(number // PER_MODEL), number % PER_MODEL
    replica = replica_id(model, ordinal)
    return ShardState(
        shard=shard_id(replica, 0),
        replica=replica,
        model=model,
        ordinal=ordinal,
        generation=Generation(1, number),
        phase=Phase.READY,
        fingerprint=PROFILE.fingerprint(),
        profile=PROFILE.name,
        engine=PROFILE.engine,
        host="127.0.0.1",
        port=20_000 + number,
        pid=1000 + number,
    )
