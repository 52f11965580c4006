"""NVIDIA GPUs through NVML, the driver's own library.

Its rules:

1. A field that a driver or a part does not tell is None; it never costs the GPU, nor the look.
2. A GPU that does not answer any more keeps what was known of it and says why; so do its slices.
3. A sliced GPU (MIG) is told as its slices. One in that mode without slices can run nothing, and says so.
4. The session with the library stays open between looks: where no daemon keeps the driver awake, opening takes seconds.
   A look that fails as a whole closes it, and the next look begins anew, as after an update of the driver.

Every call may hang in the kernel. Looks exclude each other, and whoever looks does so in a thread that can be given up.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
import pynvml as nvml  # type: ignore[import-untyped] # its authors ship no types

from llmgw.agent.discovery.gpus.names import gpu_class, shares_main_memory
from llmgw.agent.discovery.gpus.sighting import Sighting
from llmgw.core.fleet.hardware import Gpu, GpuProcess

_GONE = (nvml.NVML_ERROR_GPU_IS_LOST, nvml.NVML_ERROR_RESET_REQUIRED)
_REMEDIES = {
    nvml.NVML_ERROR_GPU_IS_LOST: "it fell off the bus; restart the machine to get it back",
    nvml.NVML_ERROR_RESET_REQUIRED: "reset it with 'nvidia-smi --gpu-reset' or restart the machine",
}
_NO_SLICES = (
    "MIG mode is on and it has no slices, so nothing can run on it; make slices or switch the mode off"
)
_ROWS_FAILED = "rows of its memory are broken and could not be replaced (remapping failed)"

Held = dict[str, tuple[GpuProcess, ...]]


class Unanswered(msgspec.Struct, frozen=True):
    """NVML as a whole tells nothing: the number of its error, and its words."""

    code: int
    words: str


class Nvml:
    """Owner of this process's session with the library, and of what each GPU said last, by its number."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_open = False
        self._last: dict[int, tuple[Gpu, ...]] = {}

    def look(self) -> Sighting | Unanswered:
        """Look at every GPU. Blocks, for ever where the driver hangs."""
        with self._lock:
            try:
                if not self._is_open:
                    nvml.nvmlInit()
                    self._is_open = True
                return self._look()
            except nvml.NVMLError as error:
                self._close()
                return Unanswered(error.value, str(error))

    def _look(self) -> Sighting:
        gpus: list[Gpu] = []
        held: Held = {}
        problems = []
        for index in range(nvml.nvmlDeviceGetCount()):
            try:
                found, holders = _described(index)
            except nvml.NVMLError as error:
                found, holders = self._lost(index, error), {}
                if not found:
                    problems.append(f"GPU {index} does not answer: {error}")
            else:
                self._last[index] = found
            gpus += found
            held |= holders
        cuda = _told(nvml.nvmlSystemGetCudaDriverVersion_v2)
        return Sighting(
            gpus=tuple(gpus),
            problem="; ".join(problems) or None,
            driver=_told(nvml.nvmlSystemGetDriverVersion),
            cuda=None if cuda is None else cuda_version(cuda),
            holders=held,
        )

    def _lost(self, index: int, error: Any) -> tuple[Gpu, ...]:
        remedy = _REMEDIES.get(error.value)
        problem = f"{error}; {remedy}" if remedy else str(error)
        return tuple(unusable(gpu, problem) for gpu in self._last.get(index, ()))

    def _close(self) -> None:
        if self._is_open:
            self._is_open = False
            with suppress(nvml.NVMLError):
                nvml.nvmlShutdown()


def cuda_version(number: int) -> str:
    """Write the driver's number of a CUDA version as people do: 13040 is `13.4`."""
    return f"{number // 1000}.{number % 1000 // 10}"


def unusable(gpu: Gpu, problem: str) -> Gpu:
    """Say why a GPU must not be used, and forget what it said of the moment."""
    return msgspec.structs.replace(gpu, problem=problem, free_bytes=None, utilization=None, foreign=None)


def _described(index: int) -> tuple[tuple[Gpu, ...], Held]:
    """Ask one GPU, or its slices, for everything.

    Raises:
        NVMLError: it does not answer.
    """
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    gpu = _gpu(handle, index)
    mode = _told(nvml.nvmlDeviceGetMigMode, handle)
    if mode is None or mode[0] != nvml.NVML_DEVICE_MIG_ENABLE:
        holders = _holders(handle)
        return (gpu,), {} if holders is None else {gpu.uuid: holders}
    slices: list[Gpu] = []
    held: Held = {}
    for number in range(_told(nvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0):
        # The numbers of slices have gaps.
        part = _told(nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, number)
        if part is None:
            continue
        piece = _slice(part, gpu)
        slices.append(piece)
        if (holders := _holders(part)) is not None:
            held[piece.uuid] = holders
    if not slices:
        return (msgspec.structs.replace(gpu, problem=gpu.problem or _NO_SLICES),), {}
    return tuple(slices), held


def _gpu(handle: Any, index: int) -> Gpu:
    name = _told(nvml.nvmlDeviceGetName, handle)
    memory, has_own = _memory(handle)
    busy = _told(nvml.nvmlDeviceGetUtilizationRates, handle)
    mode = _told(nvml.nvmlDeviceGetEccMode, handle)
    rows = _told(nvml.nvmlDeviceGetRemappedRows, handle)
    uncorrected = (nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC)
    return Gpu(
        uuid=nvml.nvmlDeviceGetUUID(handle),
        name=name,
        gpu_class=None if name is None else gpu_class(name),
        index=index,
        total_bytes=None if memory is None else int(memory.total),
        free_bytes=None if memory is None else int(memory.free),
        utilization=None if busy is None else busy.gpu / 100,
        ecc=None if mode is None else bool(mode[0]),
        ecc_errors=_told(nvml.nvmlDeviceGetTotalEccErrors, handle, *uncorrected),
        unified=not has_own or (name is not None and shares_main_memory(name)),
        problem=_ROWS_FAILED if rows is not None and rows[3] else None,
    )


def _memory(handle: Any) -> tuple[Any, bool]:
    """Ask how much memory there is; the second says that it is the GPU's own, which a part without any cannot tell."""
    try:
        return nvml.nvmlDeviceGetMemoryInfo(handle), True
    except nvml.NVMLError as error:
        if error.value in _GONE:
            raise
        return None, error.value != nvml.NVML_ERROR_NOT_SUPPORTED


def _slice(handle: Any, whole: Gpu) -> Gpu:
    memory = _told(nvml.nvmlDeviceGetMemoryInfo, handle)
    name = _told(nvml.nvmlDeviceGetName, handle) or whole.name
    return msgspec.structs.replace(
        whole,
        uuid=nvml.nvmlDeviceGetUUID(handle),
        name=name,
        gpu_class=None if name is None else gpu_class(name),
        total_bytes=None if memory is None else int(memory.total),
        free_bytes=None if memory is None else int(memory.free),
        utilization=None,
        unified=False,
        slice_of=whole.uuid,
    )


def _holders(handle: Any) -> tuple[GpuProcess, ...] | None:
    """List who holds memory; a process that computes and draws is in both of the driver's lists."""
    found: dict[int, GpuProcess] = {}
    lists = (
        (nvml.nvmlDeviceGetComputeRunningProcesses_v3, nvml.nvmlDeviceGetComputeRunningProcesses_v2),
        (nvml.nvmlDeviceGetGraphicsRunningProcesses_v3, nvml.nvmlDeviceGetGraphicsRunningProcesses_v2),
    )
    told = False
    for newer, older in lists:
        processes = _told(newer, handle)
        processes = _told(older, handle) if processes is None else processes
        told = told or processes is not None
        for one in processes or ():
            held = None if one.usedGpuMemory is None else int(one.usedGpuMemory)
            found.setdefault(int(one.pid), GpuProcess(pid=int(one.pid), held_bytes=held))
    return tuple(found.values()) if told else None


def _told(ask: Callable[..., Any], *about: Any) -> Any:
    """Ask for one thing; None when the driver or this part does not tell it.

    Raises:
        NVMLError: the GPU does not answer at all.
    """
    try:
        return ask(*about)
    except nvml.NVMLError as error:
        if error.value in _GONE:
            raise
        return None
    except UnicodeDecodeError:
        # The bindings decode names strictly.
        return None
