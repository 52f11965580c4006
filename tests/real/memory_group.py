"""What all memory of an engine comes to at its highest, as a control group counts it, or else the kernel."""

import contextlib
import os
import time
from pathlib import Path
from typing import Protocol

MOUNTS = Path("/proc/self/mountinfo")
_JOIN = 'echo $$ > "$0" && exec "$@"'


class Memory(Protocol):
    """Counts the memory of one engine from its start."""

    how: str
    before: tuple[str, ...]
    """What goes before the engine's command line."""

    def peak_bytes(self, pid: int) -> int:
        """Return the most that the engine, whose leader is `pid`, has held so far."""

    def close(self) -> None:
        """Leave nothing behind; the engine has ended."""


class MemoryGroup:
    """A fresh control group: counts what is allocated, and file pages that nobody else has read in before."""

    def __init__(self, folder: Path, peak: str) -> None:
        self.how = f"{peak} of a fresh control group"
        self._folder = folder
        self._peak = folder / peak
        self.before = ("sh", "-c", _JOIN, str(folder / "cgroup.procs"))

    def peak_bytes(self, pid: int) -> int:
        return int(self._peak.read_text())

    def close(self) -> None:
        # The kernel lets a group go a moment after its last process.
        for _ in range(100):
            with contextlib.suppress(OSError):
                self._folder.rmdir()
                return
            time.sleep(0.05)


class HighWater:
    """Where no group can be made: the high-water marks that the kernel keeps of each process, files included."""

    how = "the sum of VmHWM"
    before = ()

    def peak_bytes(self, pid: int) -> int:
        return sum(_high_water(one) for one in _session(pid))

    def close(self) -> None:
        pass


def memory_counter() -> Memory:
    """Make the best counter that this machine allows."""
    for root, version in _memory_mounts():
        folder = root / f"llmgw-memory-{os.getpid()}-{time.monotonic_ns()}"
        peak = "memory.peak" if version == 2 else "memory.max_usage_in_bytes"
        try:
            folder.mkdir()
        except OSError:
            continue
        if (folder / peak).is_file() and (folder / "cgroup.procs").is_file():
            return MemoryGroup(folder, peak)
        folder.rmdir()
    return HighWater()


def _memory_mounts() -> list[tuple[Path, int]]:
    """Find where groups that count memory can be made, with the version of the interface."""
    found = []
    for line in MOUNTS.read_text().splitlines():
        head, _, tail = line.partition(" - ")
        kind, _, options = tail.split(" ", 2)
        if kind == "cgroup2":
            found.append((Path(head.split()[4]), 2))
        elif kind == "cgroup" and "memory" in options.split(","):
            found.append((Path(head.split()[4]), 1))
    return found


def _session(pid: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if (entry / "stat").read_text().rpartition(")")[2].split()[3] == str(pid):
                    found.append(int(entry.name))
    return found


def _high_water(pid: int) -> int:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0
