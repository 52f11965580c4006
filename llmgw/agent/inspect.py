"""`llmgw agent inspect`: what this node would say of itself, in words. Pure."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from llmgw.core.fleet.hardware import EngineInstall, Fabric, Filesystem, Gpu, Machine
from llmgw.core.fleet.snapshot import Introduction
from llmgw.core.fleet.warnings import machine_warnings
from llmgw.core.fleet.weights import Holding
from llmgw.core.units import show_bytes

UNKNOWN = "-"

T = TypeVar("T")


def describe(said: Introduction) -> str:
    """Lay out everything; unknown is `-`, a list that is known to be empty is `none`."""
    machine, engines = said.machine, said.engines
    sections = [
        _facts(said),
        _listed("GPUs", machine.gpus, _gpu),
        _listed("fabrics", machine.fabrics, _fabric),
        _listed("filesystems", machine.filesystems, _filesystem),
        _listed("weights", said.weights, _holding),
        _listed("engines", engines, _engine),
    ]
    if warnings := machine_warnings(machine, engines):
        sections.append(_listed("warnings", warnings, lambda warning: iter((warning,))))
    return "\n".join(sections)


def _facts(said: Introduction) -> str:
    machine = said.machine
    processor = machine.processor
    pairs = [
        ("node", said.node),
        ("address", said.address),
        ("agent", said.version),
        ("pool", said.pool),
        ("labels", ", ".join(f"{key}={value}" for key, value in sorted(said.labels.items())) or "none"),
        ("system", machine.os),
        ("kernel", machine.kernel),
        ("processor", processor.model),
        ("architecture", processor.architecture),
        ("cores", processor.cores),
        ("vector", None if processor.vector is None else ", ".join(processor.vector) or "none"),
        ("memory free", _part(machine.memory.available_bytes, machine.memory.total_bytes)),
        ("GPU driver", _driver(machine)),
    ]
    widest = max(len(name) for name, _ in pairs)
    return "\n".join(f"{name:<{widest}}  {_plain(value or UNKNOWN)}" for name, value in pairs)


def _driver(machine: Machine) -> str | None:
    if machine.driver is None:
        return "none" if machine.gpus == () and machine.gpu_problem is None else None
    return machine.driver + (f" (CUDA {machine.cuda})" if machine.cuda else "")


def _gpu(gpu: Gpu) -> Iterator[str]:
    number = UNKNOWN if gpu.index is None else str(gpu.index)
    kind = f" ({gpu.gpu_class})" if gpu.gpu_class else ""
    yield f"{number}  {gpu.name or UNKNOWN}{kind}, {gpu.uuid}"
    state = [f"memory free {_part(gpu.free_bytes, gpu.total_bytes)}"]
    if gpu.unified:
        state.append("which is main memory")
    if gpu.slice_of:
        state.append(f"a slice of {gpu.slice_of}")
    if gpu.utilization is not None:
        state.append(f"busy {gpu.utilization:.0%}")
    if gpu.ecc is not None:
        errors = "" if gpu.ecc_errors is None else f" ({gpu.ecc_errors} uncorrected errors)"
        state.append(f"ECC {'on' if gpu.ecc else 'off'}{errors}")
    yield f"   {', '.join(state)}"
    if gpu.problem is not None:
        yield f"   not used: {gpu.problem}"
    for process in gpu.foreign or ():
        yield f"   held by pid {process.pid} ({process.command or '?'}), not ours: {show_bytes(process.held_bytes)}"


def _fabric(fabric: Fabric) -> Iterator[str]:
    state = f"attached, {fabric.rate or UNKNOWN}" if fabric.attached else f"not attached: {fabric.problem}"
    yield f"{fabric.name} through {fabric.adapter}: {state}"


def _filesystem(one: Filesystem) -> Iterator[str]:
    shared = ", shared with other nodes" if one.shared else ""
    yield (
        f"{one.mount}  {_part(one.free_bytes, one.total_bytes)} free, {one.kind or UNKNOWN} on "
        f"{one.device or UNKNOWN}{shared}; holds {', '.join(one.holds)}"
    )


def _holding(one: Holding) -> Iterator[str]:
    shared = f", shared on {one.device or UNKNOWN}" if one.shared else ""
    whole = "" if one.complete else ", not finished"
    yield f"{one.path}  {show_bytes(one.size_bytes)}{shared}{whole}"


def _engine(engine: EngineInstall) -> Iterator[str]:
    problem = f": {engine.problem}" if engine.problem else ""
    yield f"{engine.engine} {engine.version or UNKNOWN} at {engine.path}{problem}"


def _listed(title: str, items: Sequence[T] | None, show: Callable[[T], Iterator[str]]) -> str:
    lines = [UNKNOWN] if items is None else [_plain(line) for item in items for line in show(item)]
    return "\n".join([f"{title}:", *(f"  {line}" for line in lines or ["none"])])


def _part(free: int | None, total: int | None) -> str:
    return UNKNOWN if free is None and total is None else f"{show_bytes(free)} of {show_bytes(total)}"


def _plain(text: object) -> str:
    """Spell out control characters, which could steer a terminal."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(text))
