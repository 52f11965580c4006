"""What makes a node slow or useless though it is well connected, in sentences about "it"."""

from collections.abc import Iterator

from llmgw.core.fleet.hardware import EngineInstall, Fabric, Gpu, Machine, Processor


def machine_warnings(machine: Machine, engines: tuple[EngineInstall, ...] | None) -> tuple[str, ...]:
    """Say it of a machine and the engines on it; what a node does not tell is no reason to warn."""
    return (
        *_of_processor(machine.processor),
        *_of_gpus(machine),
        *(text for fabric in machine.fabrics or () for text in _of_fabric(fabric)),
        *_of_engines(engines),
    )


def gpu_name(gpu: Gpu) -> str:
    """Name a GPU for people: number, trade name and uuid, as far as they are known."""
    number = "" if gpu.index is None else f" {gpu.index}"
    inside = ", ".join(part for part in (gpu.name, gpu.uuid) if part)
    return f"GPU{number} ({inside})"


def _of_processor(processor: Processor) -> Iterator[str]:
    # Only what the node said counts: an agent that does not tell the extensions may well have them.
    if processor.architecture == "x86_64" and processor.vector is not None and "avx2" not in processor.vector:
        yield "its processor has no AVX2, which makes engines about five times slower"


def _of_gpus(machine: Machine) -> Iterator[str]:
    if machine.gpu_problem is not None:
        yield f"its GPUs cannot be told: {machine.gpu_problem}"
    for gpu in machine.gpus or ():
        # Where the driver as a whole says nothing, it has been said of all.
        if gpu.problem is not None and gpu.problem != machine.gpu_problem:
            yield f"{gpu_name(gpu)} cannot be used: {gpu.problem}"
        elif gpu.problem is None and gpu.ecc_errors:
            plural = "error" if gpu.ecc_errors == 1 else "errors"
            yield f"{gpu_name(gpu)} had {gpu.ecc_errors} uncorrected memory {plural} since its driver was loaded"


def _of_fabric(fabric: Fabric) -> Iterator[str]:
    if not fabric.attached:
        yield (
            f"it is not attached to fabric {fabric.name} through {fabric.adapter}: {fabric.problem or 'no link'}"
        )


def _of_engines(engines: tuple[EngineInstall, ...] | None) -> Iterator[str]:
    for engine in engines or ():
        if engine.problem is not None:
            yield f"{engine.engine} at {engine.path} cannot be used: {engine.problem}"
    if engines == ():
        yield "it has no engine; install one there or name it under engines in its agent.yaml"
