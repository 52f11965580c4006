"""A fleet to look at: machines of several kinds, models that serve, load, fail and fit nowhere, and their logs."""

from typing import Any

import msgspec
from fakes.nodes import an_introduction

from llmgw.core.fleet.hardware import (
    EngineInstall,
    Fabric,
    Filesystem,
    Gpu,
    GpuProcess,
    Machine,
    Memory,
    Processor,
)
from llmgw.core.fleet.snapshot import Introduction
from llmgw.core.fleet.weights import Holding, Progress, cache_name_of
from llmgw.core.units import GIB, MIB, TIB

GEMMA = "hf://ggml-org/gemma-3-270m-it-GGUF/gemma-3-270m-it-Q8_0.gguf"
QWEN = "hf://Qwen/Qwen3-32B-GGUF/Qwen3-32B-Q4_K_M.gguf"
LLAMA = "hf://ggml-org/Llama-3.3-70B-Instruct-GGUF/Llama-3.3-70B-Instruct-Q4_K_M.gguf"
MISTRAL = "file:///srv/models/mistral-small-24b-q5_k_m.gguf"
EMBED = "file:///srv/models/nomic-embed-text-v1.5.f16.gguf"
OLD = "hf://ggml-org/gemma-2-9b-it-GGUF/gemma-2-9b-it-Q6_K.gguf"

LLAMA_CPP = EngineInstall(
    engine="llama.cpp",
    form="llama-server",
    path="/opt/llmgw/engines/llama.cpp/b11434/llama-server",
    version="b11434",
)
BROKEN = msgspec.structs.replace(
    LLAMA_CPP,
    version=None,
    problem="libcudart.so.12: cannot open shared object file: No such file or directory",
)

CATALOG: dict[str, Any] = {
    "models": [
        {
            "name": "gemma-3-270m",
            "aliases": ["small"],
            "replicas": 2,
            "profiles": [
                {
                    "name": "cpu",
                    "engine": "llama.cpp",
                    "weights": GEMMA,
                    "context": 8192,
                    "parallel": 4,
                    "min_memory_gb": 1.5,
                }
            ],
        },
        {
            "name": "qwen3-32b",
            "aliases": ["default"],
            "replicas": 2,
            "fallback": ["gemma-3-270m"],
            "profiles": [
                {
                    "name": "h100",
                    "engine": "llama.cpp",
                    "weights": QWEN,
                    "context": 65536,
                    "parallel": 16,
                    "gpus": 1,
                    "gpu_class": "h100",
                    "min_gpu_memory_gb": 38,
                },
                {
                    "name": "l40s",
                    "engine": "llama.cpp",
                    "weights": QWEN,
                    "context": 16384,
                    "parallel": 8,
                    "gpus": 1,
                    "gpu_class": "l40s",
                    "min_gpu_memory_gb": 30,
                },
            ],
        },
        {
            "name": "llama-3.3-70b",
            "replicas": 1,
            "profiles": [
                {
                    "name": "two-gpus",
                    "engine": "llama.cpp",
                    "weights": LLAMA,
                    "context": 32768,
                    "parallel": 8,
                    "gpus": 2,
                    "gpu_class": "h100",
                    "min_gpu_memory_gb": 40,
                }
            ],
        },
        {
            "name": "mistral-small-24b",
            "replicas": 1,
            "profiles": [
                {
                    "name": "l40s",
                    "engine": "llama.cpp",
                    "weights": MISTRAL,
                    "context": 32768,
                    "gpus": 1,
                    "gpu_class": "l40s",
                    "min_gpu_memory_gb": 24,
                }
            ],
        },
        {
            "name": "nomic-embed-text",
            "replicas": 1,
            "profiles": [{"name": "cpu", "engine": "llama.cpp", "weights": EMBED, "min_memory_gb": 1}],
        },
        {
            "name": "deepseek/r1-671b",
            "replicas": 1,
            "fallback": ["qwen3-32b"],
            "profiles": [
                {
                    "name": "one-box",
                    "engine": "llama.cpp",
                    "weights": "file:///srv/models/deepseek-r1-q4_k_m.gguf",
                    "gpus": 8,
                    "gpu_class": "h200",
                    "min_gpu_memory_gb": 120,
                }
            ],
        },
        {
            "name": "whisper-large-v3",
            "replicas": 0,
            "profiles": [
                {"name": "cpu", "engine": "llama.cpp", "weights": "file:///srv/models/whisper.gguf"}
            ],
        },
    ]
}

FETCHING = "llama-3.3-70b"
FAILING = "mistral-small-24b"
FAILURE = (
    "the engine ended while it was starting (exit status 1): llama_model_load: error loading model: "
    "unable to allocate CUDA0 buffer"
)
TAIL = (
    "ggml_cuda_init: found 4 CUDA devices:",
    "  Device 0: NVIDIA L40S, compute capability 8.9, VMM: yes",
    "llama_model_loader: loaded meta data with 42 key-value pairs and 363 tensors (version GGUF V3 (latest))",
    "print_info: file format = GGUF V3 (latest)",
    "print_info: file type   = Q5_K - Medium",
    "print_info: file size   = 15.61 GiB (5.69 BPW)",
    "load_tensors: loading model tensors, this can take a while... (mmap = true)",
    "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 15988.42 MiB on device 0: cudaMalloc failed: out of memory",
    "alloc_tensor_range: failed to allocate CUDA0 buffer of size 16765062144",
    "llama_model_load: error loading model: unable to allocate CUDA0 buffer",
    "llama_model_load_from_file_impl: failed to load model",
    "common_init_from_params: failed to load model '/srv/models/mistral-small-24b-q5_k_m.gguf'",
    "srv    load_model: failed to load model, '/srv/models/mistral-small-24b-q5_k_m.gguf'",
    "srv    operator(): operator(): cleaning up before exit...",
    "main: exiting due to model loading error",
)


def demo_nodes() -> tuple[Introduction, ...]:
    return (
        _box("h100-01", 1, _h100s("a")),
        _box("h100-02", 2, _h100s("b", foreign=5)),
        _box("l40s-01", 3, _l40s("c"), pool="batch", fabric_problem="the link is down (State: 1: DOWN)"),
        _box("l40s-02", 4, _l40s("d", broken=2), pool="batch", engines=(BROKEN,)),
        _cpu("cpu-01", 5, cores=64, memory_gb=512, free_gb=401.2),
        _cpu(
            "cpu-02",
            6,
            cores=16,
            memory_gb=96,
            free_gb=71.7,
            vector=("sse4_2", "avx"),
            model="Intel Xeon E5-2670",
        ),
        _cpu(
            "edge.pi-4",
            7,
            cores=4,
            memory_gb=8,
            free_gb=6.1,
            vector=("neon",),
            model=None,
            architecture="aarch64",
        ),
    )


def progress_at(seconds: float) -> Progress:
    """How far the download is after so many seconds of looking."""
    rate = 312.4 * MIB
    done = min(39.6 * GIB, 16.9 * GIB + seconds * rate)
    return Progress(
        cache_name=cache_name_of(LLAMA) or "llama",
        done_bytes=int(done),
        total_bytes=int(39.6 * GIB),
        rate=rate,
    )


GREETING = (
    "2026-11-30T02:11:04Z info  agent starts: version 0.1.0, state in /var/lib/llmgw-agent",
    "2026-11-30T02:11:04Z info  found 4 GPUs, 2 filesystems, 1 engine",
    "2026-11-30T02:11:05Z info  connected to 10.0.0.5:8443, epoch 7",
)


def agent_lines(model: str, shard: str) -> tuple[str, ...]:
    """What an agent says of a shard of a model that it starts."""
    starts = f"2026-11-30T02:11:06Z info  {shard} starts: llama.cpp b11434 on port 40127"
    if model == FAILING:
        return starts, f"2026-11-30T02:11:19Z error {shard} failed: {FAILURE}"
    return starts, f"2026-11-30T02:11:31Z info  {shard} is {'fetching' if model == FETCHING else 'ready'}"


def engine_lines(model: str, shard: str) -> tuple[str, ...]:
    """What the engine of a shard of a model says."""
    if model == FAILING:
        return TAIL
    slots = [
        f"slot update_slots: id {i % 4:2d} | task {i * 7} | prompt processing, n_tokens = {i * 31 % 2048}"
        for i in range(40)
    ]
    return (
        f"build: 11434 with gcc for x86_64-linux-gnu, serves {shard}",
        "system_info: n_threads = 16 (n_threads_batch = 16) / 64 | CPU : AVX2 = 1 | AVX512 = 1 | F16C = 1 |",
        "main: server is listening on http://10.20.0.5:40127 - starting the main loop",
        *slots,
    )


def _box(
    name: str,
    number: int,
    gpus: tuple[Gpu, ...],
    *,
    pool: str = "default",
    engines: tuple[EngineInstall, ...] = (LLAMA_CPP,),
    fabric_problem: str | None = None,
) -> Introduction:
    machine = Machine(
        hostname=name,
        os="Debian GNU/Linux 12 (bookworm)",
        kernel="6.1.0-31-amd64",
        processor=Processor(
            model="AMD EPYC 9554", architecture="x86_64", cores=128, vector=("avx2", "avx512f", "avx512_vnni")
        ),
        memory=Memory(total_bytes=int(1.5 * TIB), available_bytes=int((1.5 * 1024 - 90 * number) * GIB)),
        filesystems=(
            Filesystem(
                mount="/",
                device="/dev/nvme0n1p2",
                kind="ext4",
                total_bytes=int(3.4 * TIB),
                free_bytes=int((2.1 - number * 0.45) * TIB),
                holds=("state", "weights"),
            ),
            Filesystem(
                mount="/srv/models",
                device="filer-1:/models",
                kind="nfs4",
                total_bytes=60 * TIB,
                free_bytes=22 * TIB,
                shared=True,
                holds=("weights",),
            ),
        ),
        driver="570.124.06",
        cuda="12.8",
        gpus=gpus,
        fabrics=(
            Fabric(
                name="ib-a",
                adapter="mlx5_0",
                attached=fabric_problem is None,
                rate="400 Gb/sec (4X NDR)",
                problem=fabric_problem,
            ),
        ),
    )
    weights = [
        _shared("/srv/models/mistral-small-24b-q5_k_m.gguf", 15.6, source=MISTRAL),
        _shared("/srv/models/nomic-embed-text-v1.5.f16.gguf", 0.26, source=EMBED),
        _shared("/srv/models/archive/phi-3-medium-q8_0.gguf", 13.8),
        _cached(QWEN, 18.5),
    ]
    if number % 2:
        weights.append(_cached(OLD, 7.1))
    said = an_introduction(
        name, machine=machine, engines=engines, pool=pool, labels={"rack": f"b{number}"}, version="0.1.0"
    )
    return msgspec.structs.replace(said, address=f"10.20.0.{number}", weights=tuple(weights))


def _cpu(
    name: str,
    number: int,
    *,
    cores: int,
    memory_gb: float,
    free_gb: float,
    vector: tuple[str, ...] = ("avx2", "avx512f"),
    model: str | None = "AMD EPYC 7763",
    architecture: str = "x86_64",
) -> Introduction:
    machine = Machine(
        hostname=name,
        os="Ubuntu 24.04.2 LTS",
        kernel="6.8.0-57-generic",
        processor=Processor(model=model, architecture=architecture, cores=cores, vector=vector),
        memory=Memory(total_bytes=int(memory_gb * GIB), available_bytes=int(free_gb * GIB)),
        filesystems=(
            Filesystem(
                mount="/var",
                device="/dev/sda3",
                kind="xfs",
                total_bytes=931 * GIB,
                free_bytes=(38 if number == 6 else 512) * GIB,
                holds=("state", "weights"),
            ),
        ),
        gpus=(),
        fabrics=(),
    )
    said = an_introduction(name, machine=machine, engines=(LLAMA_CPP,), version="0.1.0")
    return msgspec.structs.replace(said, address=f"10.20.0.{number}", weights=(_cached(GEMMA, 0.28),))


def _h100s(letter: str, *, foreign: int | None = None) -> tuple[Gpu, ...]:
    return tuple(
        _gpu(
            letter,
            i,
            "NVIDIA H100 80GB HBM3",
            "h100-80gb-hbm3",
            79.6,
            free=18.2 if i == foreign else 79.1,
            busy=0.99 if i == foreign else 0.0,
            foreign=(GpuProcess(pid=88121, command="python train.py --fsdp", held_bytes=int(60.9 * GIB)),)
            if i == foreign
            else (),
        )
        for i in range(8)
    )


def _l40s(letter: str, *, broken: int | None = None) -> tuple[Gpu, ...]:
    return tuple(
        _gpu(
            letter,
            i,
            "NVIDIA L40S",
            "l40s",
            44.7,
            free=44.3,
            busy=0.0,
            foreign=(GpuProcess(pid=4410, command="Xorg", held_bytes=int(0.1 * GIB)),) if i == 0 else (),
            problem="fallen off the bus (Xid 79)" if i == broken else None,
        )
        for i in range(4)
    )


def _gpu(
    letter: str,
    index: int,
    name: str,
    gpu_class: str,
    total: float,
    *,
    free: float,
    busy: float,
    foreign: tuple[GpuProcess, ...],
    problem: str | None = None,
) -> Gpu:
    return Gpu(
        uuid=f"GPU-{letter}{index}4f1c2e-8d70-4b6e-9f21-3a{index}b5d0c7{letter}e{index}",
        name=name,
        gpu_class=gpu_class,
        index=index,
        total_bytes=int(total * GIB),
        free_bytes=int(free * GIB),
        utilization=busy,
        ecc=True,
        ecc_errors=0,
        foreign=foreign,
        problem=problem,
    )


def _shared(path: str, size_gb: float, *, source: str | None = None) -> Holding:
    return Holding(
        path=path,
        source=source,
        size_bytes=int(size_gb * GIB),
        mount="/srv/models",
        device="filer-1:/models",
        shared=True,
    )


def _cached(source: str, size_gb: float) -> Holding:
    name = cache_name_of(source) or "unnamed"
    return Holding(
        path=f"/var/lib/llmgw-agent/weights/{name}",
        source=source,
        cache_name=name,
        size_bytes=int(size_gb * GIB),
        mount="/",
        device="/dev/nvme0n1p2",
    )
