"""A thousand nodes of mixed kinds, as they would have said it themselves, with work on some of them."""

from datetime import UTC, datetime
from random import Random

from llmgw.core.fleet.hardware import (
    EngineInstall,
    Fabric,
    Filesystem,
    Gpu,
    GpuProcess,
    Machine,
    Memory,
)
from llmgw.core.fleet.shards import Claim, Phase, ShardState
from llmgw.core.fleet.snapshot import Fleet, Introduction, Node, NodeState, intended, register
from llmgw.core.fleet.weights import Holding, cache_name_of
from llmgw.core.ids import Generation, replica_id, shard_id
from llmgw.core.units import GIB, TIB

AT = datetime(2030, 1, 1, tzinfo=UTC)
KINDS = (
    # class, memory of one GPU in GiB, GPUs, main memory in GiB, share of the fleet
    (None, 0, 0, 128, 30),
    (None, 0, 0, 512, 10),
    ("rtx-4090", 24, 2, 128, 15),
    ("l40s", 48, 4, 256, 15),
    ("a100-40gb", 40, 8, 512, 10),
    ("h100-80gb-hbm3", 80, 8, 1024, 20),
)
SOURCES = tuple(f"hf://lab/weights-{number}/model.gguf" for number in range(80))
POOLS = ("default", "default", "batch", "research")


def simulated_fleet(count: int, chance: Random) -> Fleet:
    """Make a fleet of `count` nodes, some of them busy, broken or out of work."""
    nodes: dict[str, Node] = {}
    for number in range(count):
        said = _introduction(number, chance)
        # One node at a time, so that making the fleet does not take as long as all that is measured.
        one = register(Fleet(), said, connection=number + 1, now=0.0, at=AT)
        if chance.random() < 0.03:
            one = intended(one, said.node, NodeState.CORDONED, at=AT)
        nodes |= one.nodes
    return Fleet(nodes=nodes)


def _introduction(number: int, chance: Random) -> Introduction:
    kind, gpu_gb, gpus, memory_gb, _ = chance.choices(KINDS, [one[4] for one in KINDS])[0]
    node = f"node-{number:04d}"
    found = tuple(_gpu(f"GPU-{number:04d}-{index}", index, kind, gpu_gb, chance) for index in range(gpus))
    engines = ("llama.cpp", "vllm") if kind and kind != "rtx-4090" else ("llama.cpp",)
    total = memory_gb * GIB
    return Introduction(
        node=node,
        address=f"10.0.{number // 250}.{number % 250}",
        pool=chance.choice(POOLS),
        labels={"rack": f"r{number % 50:02d}", "zone": f"z{number % 3}"},
        machine=Machine(
            hostname=node,
            memory=Memory(total_bytes=total, available_bytes=int(total * chance.uniform(0.3, 0.97))),
            filesystems=_filesystems(number, chance),
            gpus=found,
            fabrics=_fabrics(kind, number),
        ),
        engines=tuple(
            EngineInstall(engine=one, form=one, path=f"/opt/{one}", version="1") for one in engines
        ),
        weights=tuple(_holding(source) for source in chance.sample(SOURCES, chance.randrange(6))),
        shards=tuple(_shards(number, found, chance)),
    )


def _gpu(uuid: str, index: int, kind: str | None, gpu_gb: int, chance: Random) -> Gpu:
    total = gpu_gb * GIB
    held = int(total * chance.uniform(0.2, 0.9)) if chance.random() < 0.05 else 0
    return Gpu(
        uuid=uuid,
        name=kind,
        gpu_class=kind,
        index=index,
        total_bytes=total,
        free_bytes=total - held - 600 * 1024**2,
        foreign=(GpuProcess(pid=4000 + index, command="python3", held_bytes=held),) if held else (),
        problem="fell off the bus" if chance.random() < 0.01 else None,
    )


def _filesystems(number: int, chance: Random) -> tuple[Filesystem, ...]:
    shared = number % 4 == 0
    total = 200 * TIB if shared else chance.choice((1, 2, 8)) * TIB
    return (
        Filesystem(
            mount="/srv" if shared else "/",
            device=f"filer-{number % 8}:/models" if shared else "/dev/nvme0n1p2",
            kind="nfs4" if shared else "ext4",
            total_bytes=total,
            free_bytes=int(total * chance.uniform(0.02, 0.9)),
            shared=shared,
            holds=("state", "weights"),
        ),
    )


def _fabrics(kind: str | None, number: int) -> tuple[Fabric, ...]:
    if kind is None or not kind.startswith(("a100", "h100")):
        return ()
    return (Fabric(name=f"ib-{'abcd'[number % 4]}", adapter="mlx5_0", attached=number % 20 != 0),)


def _holding(source: str) -> Holding:
    return Holding(
        path=f"/var/lib/{source[-20:]}", source=source, cache_name=cache_name_of(source), size_bytes=20 * GIB
    )


def _shards(number: int, gpus: tuple[Gpu, ...], chance: Random) -> list[ShardState]:
    """Put a shard or two of models that run already on every third node, some of them just starting."""
    shards = []
    for ordinal in range(chance.choice((0, 0, 0, 0, 1, 2))):
        model = f"old-{(number * 2 + ordinal) % 50}"
        replica = replica_id(model, (number * 2 + ordinal) // 50)
        gpu = chance.choice(gpus) if gpus else None
        shards.append(
            ShardState(
                shard=shard_id(replica, 0),
                replica=replica,
                model=model,
                generation=Generation(1, number * 4 + ordinal),
                phase=chance.choice((Phase.READY, Phase.READY, Phase.STARTING, Phase.FETCHING)),
                claim=Claim(
                    memory_bytes=chance.randrange(2, 30) * GIB,
                    gpus=(gpu.uuid,) if gpu else (),
                    gpu_bytes=chance.choice((None, 8 * GIB)) if gpu else None,
                    disk_bytes=chance.choice((None, 20 * GIB)),
                    fetches=f"{number:032x}.gguf",
                ),
            )
        )
    return shards
