"""Processor, memory and system of this machine, cgroup limits included."""

import math
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from llmgw.core.fleet.hardware import Machine, Memory, Processor
from llmgw.core.units import KIB

VECTORS = (
    *("sse4_2", "avx", "f16c", "fma", "avx2", "bmi2"),
    *("avx512f", "avx512_vnni", "avx512_bf16", "amx_tile", "amx_int8"),
    *("asimd", "asimddp", "fphp", "asimdhp", "sve", "sve2", "i8mm", "bf16"),
)
"""Vector extensions that engines are built for, x86 first."""


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """What a cgroup allows, in bytes; `used_bytes` leaves out what the kernel would give back at once."""

    most_bytes: int
    used_bytes: int | None = None


def parse_meminfo(text: str) -> Memory:
    """Read /proc/meminfo."""
    found = {}
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if name in ("MemTotal", "MemAvailable") and words and words[0].isdecimal():
            found[name] = int(words[0]) * KIB
    return Memory(total_bytes=found.get("MemTotal"), available_bytes=found.get("MemAvailable"))


def limited(memory: Memory, limits: list[Limit]) -> Memory:
    """Apply the limits of cgroups to what the machine has: the least of all counts."""
    total, available = memory.total_bytes, memory.available_bytes
    for limit in limits:
        total = limit.most_bytes if total is None else min(total, limit.most_bytes)
        if limit.used_bytes is not None:
            left = max(0, limit.most_bytes - limit.used_bytes)
            available = left if available is None else min(available, left)
    return Memory(total_bytes=total, available_bytes=available)


def parse_cgroups(text: str) -> dict[str, str]:
    """Read /proc/self/cgroup: path by controller, "" for the unified hierarchy."""
    paths = {}
    for line in text.splitlines():
        parts = line.split(":", 2)
        if len(parts) == 3:
            paths.update(dict.fromkeys(parts[1].split(","), parts[2]))
    return paths


def parse_cpuinfo(text: str) -> tuple[str | None, tuple[str, ...] | None]:
    """Read /proc/cpuinfo: the trade name (ARM says none) and the vector extensions, in the order of VECTORS."""
    model, flags = None, None
    for line in text.splitlines():
        name, colon, value = (part.strip() for part in line.partition(":"))
        if not colon:
            continue
        if name == "model name" and model is None:
            model = value
        elif name in ("flags", "Features") and flags is None:
            flags = set(value.split())
    return model, None if flags is None else tuple(v for v in VECTORS if v in flags)


def parse_os_release(text: str) -> str | None:
    """Read /etc/os-release: the name that the system gives itself."""
    for line in text.splitlines():
        name, _, value = line.partition("=")
        if name == "PRETTY_NAME":
            return value.strip().strip("\"'") or None
    return None


def read_memory(root: Path = Path("/")) -> Memory:
    """Read how much memory there is now and how much of it is free, for this process."""
    return limited(parse_meminfo(_read(root / "proc/meminfo") or ""), _memory_limits(root))


def read_cores(root: Path = Path("/")) -> int | None:
    """Count the cores this process may use: affinity, and the time that cgroups give."""
    try:
        cores = len(os.sched_getaffinity(0))
    except OSError:
        cores = os.cpu_count() or 0
    quotas = list(core_quotas(root))
    return min([cores, *(max(1, math.ceil(quota)) for quota in quotas)]) or None


def read_machine(hostname: str, root: Path = Path("/")) -> Machine:
    """Read all that this machine says of itself; what cannot be read is left out. Filesystems come from `disks`."""
    model, vector = parse_cpuinfo(_read(root / "proc/cpuinfo") or "")
    system = os.uname()
    return Machine(
        hostname=hostname,
        os=parse_os_release(_read(root / "etc/os-release") or ""),
        kernel=system.release,
        processor=Processor(model=model, architecture=system.machine, cores=read_cores(root), vector=vector),
        memory=read_memory(root),
    )


def _memory_limits(root: Path) -> list[Limit]:
    limits = []
    for folder in _cgroup_folders(root, ""):
        if (most := _number(folder / "memory.max")) is not None:
            used = _used(folder / "memory.current", folder / "memory.stat", "inactive_file")
            limits.append(Limit(most_bytes=most, used_bytes=used))
    for folder in _cgroup_folders(root, "memory"):
        # The old hierarchy writes "no limit" as the largest number of pages there is.
        most = _number(folder / "memory.limit_in_bytes")
        if most is not None and most < 2**62:
            used = _used(folder / "memory.usage_in_bytes", folder / "memory.stat", "total_inactive_file")
            limits.append(Limit(most_bytes=most, used_bytes=used))
    return limits


def core_quotas(root: Path) -> Iterator[float]:
    """Yield how many cores' worth of time each cgroup above this process gives it, where one limits that."""
    for folder in _cgroup_folders(root, ""):
        words = (_read(folder / "cpu.max") or "").split()
        if len(words) == 2 and all(word.isdecimal() for word in words) and int(words[1]):
            yield int(words[0]) / int(words[1])
    for folder in _cgroup_folders(root, "cpu"):
        quota, period = _number(folder / "cpu.cfs_quota_us"), _number(folder / "cpu.cfs_period_us")
        if quota is not None and period and quota > 0:
            yield quota / period


def _cgroup_folders(root: Path, controller: str) -> Iterator[Path]:
    """Yield the folder of this process's cgroup and those above it, as far as they can be seen from here."""
    path = parse_cgroups(_read(root / "proc/self/cgroup") or "").get(controller)
    if path is None:
        return
    cgroups = root / "sys/fs/cgroup"
    mounts = [cgroups / controller] if controller else [cgroups / "unified", cgroups]
    mount = next((m for m in mounts if m.is_dir()), None)
    if mount is None:
        return
    parts = [part for part in path.split("/") if part]
    # A container sees its own cgroup as the mount's root, whatever path the kernel names: the root counts in any case.
    if ".." not in parts:
        for count in range(len(parts), 0, -1):
            yield mount.joinpath(*parts[:count])
    yield mount


def _used(current: Path, stat: Path, cache: str) -> int | None:
    used = _number(current)
    if used is None:
        return None
    for line in (_read(stat) or "").splitlines():
        name, _, value = line.partition(" ")
        if name == cache and value.isdecimal():
            return max(0, used - int(value))
    return used


def _number(path: Path) -> int | None:
    try:
        return int(_read(path) or "")
    except ValueError:
        return None


def _read(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return None
