"""AMD GPUs as the kernel's driver shows them in /sys; nothing of ROCm is needed."""

from collections.abc import Iterator
from pathlib import Path

from llmgw.agent.discovery.gpus.names import gpu_class
from llmgw.agent.discovery.gpus.sighting import Sighting
from llmgw.core.fleet.hardware import Gpu, GpuProcess

VENDOR = "0x1002"


def look(root: Path = Path("/")) -> Sighting:
    """Look at every card that the amdgpu driver serves; others have no memory that engines could use."""
    cards = list(_cards(root / "sys/class/drm"))
    gpus = tuple(_gpu(card, index) for index, card in enumerate(cards))
    return Sighting(
        gpus=gpus,
        driver=_read(root / "sys/module/amdgpu/version") if gpus else None,
        holders=_holders(root / "sys/class/kfd/kfd", {gpu.uuid for gpu in gpus}),
    )


def parse_properties(text: str) -> dict[str, int]:
    """Read the properties of a node of the compute driver's topology: a name and a number a line."""
    pairs = (line.split() for line in text.splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdecimal()}


def parse_errors(text: str) -> int | None:
    """Read a count of memory errors, `ue: 0` and `ce: 0` on two lines: the uncorrected ones."""
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "ue" and value.strip().isdecimal():
            return int(value)
    return None


def _cards(drm: Path) -> Iterator[Path]:
    try:
        names = sorted(path for path in drm.iterdir() if path.name.removeprefix("card").isdecimal())
    except OSError:
        return
    for path in sorted(names, key=lambda path: int(path.name.removeprefix("card"))):
        device = path / "device"
        if _read(device / "vendor") == VENDOR and (device / "mem_info_vram_total").exists():
            yield device


def _gpu(device: Path, index: int) -> Gpu:
    total, used = _number(device / "mem_info_vram_total"), _number(device / "mem_info_vram_used")
    busy, errors = _number(device / "gpu_busy_percent"), _read(device / "ras/umc_err_count")
    name = _read(device / "product_name") or f"AMD GPU {_read(device / 'device') or ''}".strip()
    uncorrected = None if errors is None else parse_errors(errors)
    return Gpu(
        uuid=_uuid(device),
        vendor="amd",
        name=name,
        gpu_class=gpu_class(name),
        index=index,
        total_bytes=total,
        free_bytes=None if total is None or used is None else max(0, total - used),
        utilization=None if busy is None else busy / 100,
        ecc=None if uncorrected is None else True,
        ecc_errors=uncorrected,
    )


def _uuid(device: Path) -> str:
    # ROCm's own libraries call it so too; a card without such a number is known by its place on the bus.
    unique = _read(device / "unique_id")
    return f"GPU-{unique}" if unique else f"PCI-{device.resolve().name}"


def _holders(kfd: Path, uuids: set[str]) -> dict[str, tuple[GpuProcess, ...]]:
    """Find out who computes on which GPU, as far as the compute driver tells."""
    by_id = {}
    for node in _folders(kfd / "topology/nodes"):
        unique = parse_properties(_read(node / "properties") or "").get("unique_id")
        number = _read(node / "gpu_id")
        if unique and number and (uuid := f"GPU-{unique:016x}") in uuids:
            by_id[number] = uuid
    found: dict[str, tuple[GpuProcess, ...]] = dict.fromkeys(by_id.values(), ())
    for process in _folders(kfd / "proc"):
        for number, uuid in by_id.items():
            held = _number(process / f"vram_{number}")
            if held and process.name.isdecimal():
                found[uuid] = (*found[uuid], GpuProcess(pid=int(process.name), held_bytes=held))
    return found


def _folders(path: Path) -> list[Path]:
    try:
        return sorted(path.iterdir())
    except OSError:
        return []


def _number(path: Path) -> int | None:
    text = _read(path)
    return int(text) if text is not None and text.isdecimal() else None


def _read(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace").strip() or None
    except OSError:
        return None
