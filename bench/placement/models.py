"""Models that ask for all sorts of things, each for amounts of its own, and a share of them for what nobody has."""

from collections import Counter
from collections.abc import Callable
from random import Random

from llmgw.core.fleet.catalog import Catalog, Model, Profile
from llmgw.core.fleet.snapshot import Fleet
from placement.machines import SOURCES

Ask = Callable[[Random], dict[str, object]]


def running_models(fleet: Fleet) -> tuple[Model, ...]:
    """Make the models that run on a fleet already, with as many replicas as there are."""
    counts = Counter(shard.model for node in fleet.nodes.values() for shard in node.shards.values())
    way = Profile(name="way", engine="llama.cpp", weights="hf://lab/old/model.gguf")
    return tuple(Model(name=name, replicas=count, profiles=(way,)) for name, count in sorted(counts.items()))


def mixed_catalog(
    count: int, hopeless_share: float, chance: Random, running: tuple[Model, ...]
) -> tuple[Catalog, frozenset[str]]:
    """Make models of one replica each beside those that run; also names those that fit nowhere."""
    models, hopeless = [], set()
    for number in range(count):
        name = f"model-{number:03d}"
        if number < count * hopeless_share:
            asks = HOPELESS[number % len(HOPELESS)](chance)
            hopeless.add(name)
        else:
            asks = chance.choice(POSSIBLE)(chance)
        models.append(Model(name=name, profiles=(_profile(name, asks, chance),)))
    # Not one kind after the other: what was placed before changes what is asked next.
    chance.shuffle(models)
    return Catalog(models=(*running, *models)), frozenset(hopeless)


def mass_catalog(models: int, replicas: int, running: tuple[Model, ...]) -> Catalog:
    """Make a few models of many replicas that ask for little."""
    asks = Profile(name="cpu", engine="llama.cpp", weights="hf://lab/small/model.gguf", min_memory_gb=1.5)
    mass = (Model(name=f"mass-{number}", replicas=replicas, profiles=(asks,)) for number in range(models))
    return Catalog(models=(*running, *mass))


def _profile(name: str, asks: dict[str, object], chance: Random) -> Profile:
    given = {
        "engine": "llama.cpp",
        "weights": chance.choice(SOURCES),
        "context": chance.randrange(4096, 65536),
    }
    return Profile(**{"name": f"{name}-way"} | given | asks)  # type: ignore[arg-type]


def _memory(chance: Random) -> dict[str, object]:
    return {"min_memory_gb": round(chance.uniform(1, 60), 2), "min_disk_gb": round(chance.uniform(1, 40), 2)}


def _labelled(chance: Random) -> dict[str, object]:
    return {"min_memory_gb": chance.uniform(1, 30), "node_selector": {"zone": f"z{chance.randrange(3)}"}}


def _pooled(chance: Random) -> dict[str, object]:
    return {"min_memory_gb": chance.uniform(1, 30), "pool": chance.choice(("batch", "research"))}


def _shared_gpu(chance: Random) -> dict[str, object]:
    return {"gpus": chance.choice((1, 1, 2)), "min_gpu_memory_gb": chance.uniform(4, 36), "min_memory_gb": 4}


def _whole_gpus(chance: Random) -> dict[str, object]:
    return {"engine": "vllm", "gpus": chance.choice((1, 2, 4)), "min_memory_gb": chance.uniform(8, 60)}


def _of_class(chance: Random) -> dict[str, object]:
    kind = chance.choice(("h100", "a100", "l40s"))
    return {"engine": "vllm", "gpus": 2, "gpu_class": kind, "min_gpu_memory_gb": chance.uniform(10, 38)}


def _gang(chance: Random) -> dict[str, object]:
    return {"engine": "vllm", "gpus": 4, "gpu_class": "h100", "nodes": chance.choice((2, 4)), "fabric": "any"}


POSSIBLE: tuple[Ask, ...] = (
    _memory,
    _memory,
    _labelled,
    _pooled,
    _shared_gpu,
    _shared_gpu,
    _whole_gpus,
    _of_class,
    _of_class,
    _gang,
)
HOPELESS: tuple[Ask, ...] = (
    lambda chance: {"min_memory_gb": chance.uniform(1100, 4000)},
    lambda chance: {"min_memory_gb": 1, "node_selector": {"zone": "z9"}},
    lambda chance: {"min_memory_gb": 1, "pool": "nobodys"},
    lambda chance: {"engine": "sglang", "gpus": 1},
    lambda chance: {"gpus": 16, "min_memory_gb": chance.uniform(1, 8)},
    lambda chance: {"gpus": 1, "gpu_class": "b200", "min_gpu_memory_gb": chance.uniform(1, 8)},
    lambda chance: {"gpus": 2, "min_gpu_memory_gb": chance.uniform(90, 200)},
    lambda chance: {"weights": "hf://lab/nobody-has-it", "min_disk_gb": chance.uniform(300_000, 400_000)},
    lambda chance: {"gpus": 8, "gpu_class": "h100", "nodes": 64, "fabric": "any", "engine": "vllm"},
    lambda chance: {"min_memory_gb": chance.uniform(1, 8), "fabric": "ib-z"},
)
