"""All GPUs of this machine, whoever made them, with the processes on them that are not ours.

1. NVML tells of NVIDIA GPUs; where its library cannot be used, nvidia-smi does.
2. Without a driver there are no GPUs, and that is no fault; a GPU on the bus that nobody drives is said in words.
3. A driver that answers no more leaves its GPUs known as they were last, none of them usable.
"""

from collections.abc import Callable, Collection
from pathlib import Path

import msgspec
import pynvml as nvml  # type: ignore[import-untyped] # its authors ship no types

from llmgw.agent.discovery.gpus import amd
from llmgw.agent.discovery.gpus.nvml import Nvml, Unanswered, unusable
from llmgw.agent.discovery.gpus.sighting import Sighting, joined
from llmgw.agent.discovery.gpus.smi import Smi
from llmgw.agent.discovery.hardware import read_memory
from llmgw.agent.patience import Looks
from llmgw.agent.processes import belongs, command_of
from llmgw.core.fleet.hardware import Gpu, GpuProcess

LIMIT_S = 5.0
"""How long a look may take; a heartbeat waits for it."""
FIRST_LIMIT_S = 60.0
"""How long the first one may: a driver that nothing keeps awake starts every GPU for it."""

_PCI_VENDOR, _PCI_DISPLAY = "0x10de", "0x03"
_SMI_MAY_KNOW = (
    *(nvml.NVML_ERROR_LIBRARY_NOT_FOUND, nvml.NVML_ERROR_FUNCTION_NOT_FOUND),
    *(nvml.NVML_ERROR_NO_PERMISSION, nvml.NVML_ERROR_UNKNOWN),
)
_NO_DRIVER = (nvml.NVML_ERROR_LIBRARY_NOT_FOUND, nvml.NVML_ERROR_DRIVER_NOT_LOADED)
_MISMATCH = (
    "the driver's library and its kernel module are of different versions, as they are after an update of the driver; "
    "restart the machine"
)
_REMEDIES = {
    nvml.NVML_ERROR_FUNCTION_NOT_FOUND: (
        "the libnvidia-ml.so.1 that was found lacks what a driver's own has; install the driver's, and let no other "
        "come before it (LD_LIBRARY_PATH)"
    ),
    nvml.NVML_ERROR_NO_PERMISSION: "let the agent's user open /dev/nvidiactl and /dev/nvidia*",
}


class GpuProbe:
    """Looks at the GPUs again and again. Owner of what was seen last."""

    def __init__(
        self,
        state_dir: Path,
        sessions: Callable[[], Collection[int]],
        *,
        root: Path = Path("/"),
        smi: Smi | None = None,
    ) -> None:
        """Take what tells engines of ours from other processes.

        Args:
            state_dir: of this agent, which its engines are marked with.
            sessions: lists the sessions of the engines that run now.
            root: where /proc and /sys are.
            smi: the nvidia-smi program; the one on the path when None.
        """
        self._state_dir = state_dir
        self._sessions = sessions
        self._ours: frozenset[int] = frozenset()
        self._root = root
        self._nvml = Nvml()
        self._smi = smi or Smi()
        self._looks = Looks()
        self._last = Sighting()

    async def sighting(self, limit_s: float = LIMIT_S) -> Sighting:
        """Look in a thread, for `limit_s` seconds at most."""
        self._ours = frozenset(self._sessions())
        try:
            return await self._looks.within(limit_s, "gpus", self.look)
        except TimeoutError:
            return self._kept(Sighting(problem=f"the GPU driver did not answer within {limit_s:g} s"))

    def look(self) -> Sighting:
        """Look now. Blocks, for ever where a driver hangs."""
        nvidia = self._nvidia()
        if nvidia.problem is not None and not nvidia.gpus:
            nvidia = self._kept(nvidia)
        found = joined((nvidia, amd.look(self._root)))
        holders = {uuid: tuple(map(_named, held)) for uuid, held in found.holders.items()}
        gpus = tuple(self._completed(gpu, holders.get(gpu.uuid)) for gpu in found.gpus)
        self._last = msgspec.structs.replace(found, gpus=gpus, holders=holders)
        return self._last

    def _nvidia(self) -> Sighting:
        found = self._nvml.look()
        if isinstance(found, Sighting):
            return found
        if found.code in _SMI_MAY_KNOW and self._smi.is_there():
            told = self._smi.look()
            if isinstance(told, Sighting):
                return told
            found = msgspec.structs.replace(found, words=f"{found.words}; {told.words}")
        return Sighting(problem=nvidia_problem(found, self._root))

    def _kept(self, silent: Sighting) -> Sighting:
        """Keep what was known of GPUs whose driver tells nothing now."""
        last, problem = self._last, silent.problem or "its driver tells nothing of it any more"
        gpus = tuple(unusable(gpu, problem) for gpu in last.gpus if gpu.vendor == "nvidia")
        return msgspec.structs.replace(silent, gpus=gpus, driver=last.driver, cuda=last.cuda)

    def _completed(self, gpu: Gpu, holders: tuple[GpuProcess, ...] | None) -> Gpu:
        if gpu.unified:
            memory = read_memory(self._root)
            gpu = msgspec.structs.replace(
                gpu, total_bytes=memory.total_bytes, free_bytes=memory.available_bytes
            )
        if holders is None:
            return gpu
        foreign = tuple(p for p in holders if not belongs(p.pid, self._state_dir, self._ours))
        return msgspec.structs.replace(gpu, foreign=foreign)


def nvidia_problem(answer: Unanswered, root: Path = Path("/")) -> str | None:
    """Say why NVIDIA GPUs cannot be told; None where there is no sign of any."""
    if answer.code == nvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH:
        return f"{answer.words} {_MISMATCH}"
    if answer.code not in _NO_DRIVER:
        remedy = _REMEDIES.get(answer.code)
        return f"NVML: {answer.words}; {remedy}" if remedy else f"NVML: {answer.words}"
    version = driver_version(root)
    if version is not None:
        return (
            f"NVML: {answer.words}; the NVIDIA driver {version} is loaded, and the library that tells of its GPUs "
            "(libnvidia-ml.so.1) does not work with it or is not installed"
        )
    places = nvidia_places(root)
    if not places:
        return None
    return f"there is an NVIDIA GPU at {', '.join(places)} and no NVIDIA driver runs; install or load it"


def driver_version(root: Path = Path("/")) -> str | None:
    """Read the version of the NVIDIA driver in the kernel; None when there is none."""
    try:
        return (root / "sys/module/nvidia/version").read_text(errors="replace").strip() or None
    except OSError:
        return None


def nvidia_places(root: Path = Path("/")) -> tuple[str, ...]:
    """List where on the PCI bus NVIDIA's display and compute devices are."""
    try:
        devices = sorted((root / "sys/bus/pci/devices").iterdir())
    except OSError:
        return ()
    return tuple(
        device.name
        for device in devices
        if _says(device / "vendor", _PCI_VENDOR) and _says(device / "class", _PCI_DISPLAY)
    )


def _says(path: Path, beginning: str) -> bool:
    try:
        return path.read_text(errors="replace").startswith(beginning)
    except OSError:
        return False


def _named(process: GpuProcess) -> GpuProcess:
    return msgspec.structs.replace(process, command=command_of(process.pid))
