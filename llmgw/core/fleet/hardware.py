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


class Filesystem(msgspec.Struct, frozen=True, kw_only=True):
    """One filesystem that a directory of ours lies on.

    Attributes:
        mount: where it is mounted.
        kind: the kernel's name of its type, e.g. ext4, nfs4.
        shared: several nodes see the same bytes (a network filesystem).
        holds: which of our directories lie on it, e.g. ("state", "weights").
    """

    mount: str
    kind: str | None = None
    total_bytes: int | None = None
    free_bytes: int | None = None
    shared: bool = False
    holds: tuple[str, ...] = ()


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """What a node said about itself."""

    hostname: str | None = None
    os: str | None = None
    kernel: str | None = None
    processor: Processor = Processor()
    memory: Memory = Memory()
    filesystems: tuple[Filesystem, ...] | None = None


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
