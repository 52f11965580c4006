"""Fleets and models of every kind that placement knows, for hypothesis to draw."""

from typing import Any

from fakes.catalogs import a_model, a_profile
from fakes.fleets import a_fleet
from fakes.machines import HUB, a_disk, a_fabric, a_filer, a_gpu, a_holding
from fakes.nodes import a_shard
from hypothesis import strategies as st

from llmgw.core.fleet.catalog import Model
from llmgw.core.fleet.hardware import EngineInstall, Machine, Memory
from llmgw.core.fleet.shards import Claim, Phase
from llmgw.core.fleet.snapshot import Fleet, Introduction, NodeState, intended
from llmgw.core.fleet.weights import cache_name_of
from llmgw.core.placement.need import Need
from llmgw.core.units import GIB

SOURCES = (HUB, "hf://lab/other", "file:///srv/models/gemma.gguf")
ENGINES = ("llama.cpp", "vllm")
CLASSES = ("h100", "a100", None)


@st.composite
def introductions(draw: Any, name: str) -> Introduction:
    memory = draw(st.sampled_from([(None, None), (16, 16), (64, 30), (64, None), (None, 8)]))
    total, free = (None if gb is None else gb * GIB for gb in memory)
    kind = draw(st.sampled_from(["none", "none", "some", "unified", "silent", "broken"]))
    gpus = None if kind in ("silent", "broken") else ()
    if kind in ("some", "unified"):
        gpus = tuple(
            a_gpu(
                index,
                uuid=f"{name}-{index}",
                total_gb=total_gb,
                free_gb=draw(st.sampled_from([total_gb, total_gb / 2, 3, None])),
                gpu_class=draw(st.sampled_from(["h100-80gb", "a100-40gb", None])),
                problem=draw(st.sampled_from([None, None, None, "fell off the bus"])),
                unified=kind == "unified",
            )
            for index, total_gb in enumerate(
                draw(st.lists(st.sampled_from([24, 80]), min_size=1, max_size=4))
            )
        )
    disk = draw(st.sampled_from([None, a_disk(5), a_disk(60), a_filer(30), a_filer(30, device="other:/m")]))
    fabrics = draw(st.sampled_from([None, (), ("ib-a",), ("ib-a", "ib-b"), ("ib-b",)]))
    return Introduction(
        node=name,
        address="127.0.0.1",
        pool=draw(st.sampled_from(["default", "batch"])),
        labels=draw(st.sampled_from([{}, {"rack": "b2"}])),
        machine=Machine(
            memory=Memory(total_bytes=total, available_bytes=free),
            gpus=gpus,
            gpu_problem="driver and library differ" if kind == "broken" else None,
            filesystems=None if disk is None else (disk,),
            fabrics=None if fabrics is None else tuple(a_fabric(fabric) for fabric in fabrics),
        ),
        engines=draw(st.sampled_from([None, (), ENGINES, ENGINES[:1]]).map(_installed)),
        weights=draw(
            st.none()
            | st.lists(
                st.builds(
                    a_holding,
                    st.sampled_from(SOURCES),
                    size_gb=st.sampled_from([2, 20]),
                    complete=st.booleans(),
                    shared=st.just(disk is not None and disk.shared),
                    device=st.just(None if disk is None else disk.device),
                ),
                max_size=2,
                unique_by=lambda held: held.source,
            ).map(tuple)
        ),
        shards=tuple(draw(st.lists(shards(gpus or (), name), max_size=2, unique_by=lambda one: one.shard))),
    )


def _installed(names: tuple[str, ...] | None) -> tuple[EngineInstall, ...] | None:
    return None if names is None else tuple(EngineInstall(engine=n, form=n, path=n) for n in names)


@st.composite
def shards(draw: Any, gpus: tuple[Any, ...], node: str) -> Any:
    uuids = tuple(gpu.uuid for gpu in gpus if draw(st.booleans()))
    source = draw(st.sampled_from(SOURCES[:2]))
    claim = Claim(
        memory_bytes=draw(st.sampled_from([None, 2 * GIB, 8 * GIB])),
        gpus=uuids,
        gpu_bytes=draw(st.sampled_from([None, 4 * GIB])) if uuids else None,
        disk_bytes=draw(st.sampled_from([None, 10 * GIB])),
        fetches=cache_name_of(source),
    )
    return a_shard(
        f"old-{node}",
        draw(st.integers(0, 3)),
        phase=draw(
            st.sampled_from([Phase.PENDING, Phase.FETCHING, Phase.STARTING, Phase.READY, Phase.FAILED])
        ),
        claim=draw(st.sampled_from([claim, claim, None])),
        min_memory_gb=2,
    )


@st.composite
def fleets(draw: Any) -> Fleet:
    names = [f"n{number}" for number in range(draw(st.integers(0, 6)))]
    fleet = a_fleet(*(draw(introductions(name)) for name in names))
    for name in names:
        if draw(st.integers(0, 9)) == 0:
            fleet = intended(fleet, name, NodeState.CORDONED, at=fleet.nodes[name].since)
    return fleet


@st.composite
def profiles(draw: Any, name: str) -> Any:
    gpus = draw(st.sampled_from([0, 0, 1, 2]))
    nodes = draw(st.sampled_from([1, 1, 1, 2, 3]))
    return a_profile(
        name=name,
        engine=draw(st.sampled_from(ENGINES)),
        weights=draw(st.sampled_from(SOURCES)),
        gpus=gpus,
        gpu_class=draw(st.sampled_from(CLASSES)) if gpus else None,
        min_gpu_memory_gb=draw(st.sampled_from([None, 2, 20, 60])) if gpus else None,
        min_memory_gb=draw(st.sampled_from([None, 1, 6, 40])),
        min_disk_gb=draw(st.sampled_from([None, 4, 25])),
        pool=draw(st.sampled_from([None, None, "batch"])),
        node_selector=draw(st.sampled_from([{}, {}, {"rack": "b2"}])),
        nodes=nodes,
        fabric=draw(st.sampled_from([None, "any", "ib-a"])),
    )


@st.composite
def models(draw: Any) -> list[Model]:
    return [
        a_model(
            f"m{number}",
            replicas=draw(st.integers(1, 3)),
            profiles=tuple(draw(profiles(f"p{index}")) for index in range(draw(st.integers(1, 2)))),
        )
        for number in range(draw(st.integers(1, 4)))
    ]


@st.composite
def needs_of(draw: Any, wanted: list[Model]) -> dict[str, Need]:
    known = st.builds(
        Need,
        memory_bytes=st.sampled_from([None, 3 * GIB, 20 * GIB]),
        gpu_bytes=st.sampled_from([None, 6 * GIB]),
        gpu_share=st.sampled_from([None, None, 0.9, 0.4]),
        disk_bytes=st.sampled_from([None, 15 * GIB]),
    )
    return {
        profile.fingerprint(): draw(known)
        for model in wanted
        for profile in model.profiles
        if draw(st.booleans())
    }


@st.composite
def worlds(draw: Any) -> tuple[Fleet, list[Model], dict[str, Need]]:
    """A fleet, models to place on it, and what is known of their needs."""
    wanted = draw(models())
    return draw(fleets()), wanted, draw(needs_of(wanted))
