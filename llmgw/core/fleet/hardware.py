"""Facts of a machine: processor, memory, filesystems and the engines on it. None means that nobody said."""

import msgspec


class Processor(msgspec.Struct, frozen=True, kw_only=True):
    """The processor, as the kernel describes it.

    Attributes:
        model: its trade name, from /proc/cpuinfo.
        architecture: as `uname -m` says it.
        cores: how many this agent may use (affinity and cgroup quota), not how many there are.
        vector: vector extensions engines care about, e.g. ("avx2", "avx512f").
    """

    model: str | None = None
    architecture: str | None = None
    cores: int | None = None
    vector: tuple[str, ...] | None = None


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """Main memory in bytes, cgroup limits included."""

    total_bytes: int | None = None
    available_bytes: int | None = None


class GpuProcess(msgspec.Struct, frozen=True, kw_only=True):
    """A process that holds memory of a GPU and is no engine of ours; None is what the driver does not tell."""

    pid: int
    command: str | None = None
    held_bytes: int | None = None


class Gpu(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU, or one slice of it where it is sliced (MIG).

    Attributes:
        uuid: as the driver names it; engines are given GPUs by it.
        vendor: "nvidia" or "amd".
        name: its trade name, as the driver says it.
        gpu_class: what catalogs call its kind, made from the name: "h100-80gb-hbm3".
        index: its number at the driver.
        total_bytes: its memory; of one that shares main memory (`unified`), main memory.
        free_bytes: what no process holds now, whoever that is.
        utilization: share of the last moment in which it worked, 0 to 1.
        ecc: whether its memory is checked.
        ecc_errors: uncorrected errors since the driver was loaded.
        slice_of: uuid of the GPU that this is a slice of.
        unified: its memory is the machine's main memory.
        foreign: processes on it that are no engines of this agent's; None when nobody can tell.
        problem: why it must not be used, in the driver's words; None when it may.
    """

    uuid: str
    vendor: str = "nvidia"
    name: str | None = None
    gpu_class: str | None = None
    index: int | None = None
    total_bytes: int | None = None
    free_bytes: int | None = None
    utilization: float | None = None
    ecc: bool | None = None
    ecc_errors: int | None = None
    slice_of: str | None = None
    unified: bool = False
    foreign: tuple[GpuProcess, ...] | None = None
    problem: str | None = None


class Fabric(msgspec.Struct, frozen=True, kw_only=True):
    """A fast network that this node is said to be on, through one adapter.

    Attributes:
        name: what agent.yaml calls the network; nodes that name the same one share it.
        adapter: e.g. "mlx5_0".
        attached: its link is up; only attached fabrics count.
        rate: as the kernel says it, e.g. "400 Gb/sec (4X NDR)".
        problem: why it is not attached, in the kernel's words.
    """

    name: str
    adapter: str
    attached: bool = False
    rate: str | None = None
    problem: str | None = None


class Filesystem(msgspec.Struct, frozen=True, kw_only=True):
    """One filesystem that a directory of ours lies on.

    Attributes:
        mount: where it is mounted.
        device: what is mounted there, e.g. "/dev/nvme0n1p2" or "filer:/models"; the same on all nodes that share it.
        kind: the kernel's name of its type, e.g. ext4, nfs4.
        shared: several nodes see the same bytes (a network filesystem).
        holds: which of our directories lie on it, e.g. ("state", "weights").
    """

    mount: str
    device: str | None = None
    kind: str | None = None
    total_bytes: int | None = None
    free_bytes: int | None = None
    shared: bool = False
    holds: tuple[str, ...] = ()


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """What a node said about itself.

    Attributes:
        driver: version of the GPU driver.
        cuda: the CUDA version that this driver serves, e.g. "13.4".
        gpus: None when nobody said; () when it has none.
        gpu_problem: why its GPUs cannot be told though there seem to be some, in the driver's words.
        fabrics: None when nobody said; () when it is on none.
    """

    hostname: str | None = None
    os: str | None = None
    kernel: str | None = None
    processor: Processor = Processor()
    memory: Memory = Memory()
    filesystems: tuple[Filesystem, ...] | None = None
    driver: str | None = None
    cuda: str | None = None
    gpus: tuple[Gpu, ...] | None = None
    gpu_problem: str | None = None
    fabrics: tuple[Fabric, ...] | None = None


class EngineInstall(msgspec.Struct, frozen=True, kw_only=True):
    """An engine on a node.

    Attributes:
        engine: its name in catalogs, e.g. "llama.cpp".
        form: how it is started: "llama-server" (a program) or "xllamacpp" (a Python environment's launcher).
        path: the program, or the environment's python.
        version: as the engine says it, e.g. "b11434".
        problem: why it cannot be used, in the node's words; None when it was seen to run.
    """

    engine: str
    form: str
    path: str
    version: str | None = None
    problem: str | None = None
