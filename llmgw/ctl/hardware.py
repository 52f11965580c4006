"""GPUs, fabrics and weights of a node as lines of text. Pure."""

from collections.abc import Iterator
from typing import Any

from llmgw.core.units import show_bytes
from llmgw.ctl.render import UNKNOWN, part


def gpu_lines(gpu: dict[str, Any]) -> Iterator[str]:
    """Show one GPU: what it is, how it stands, and who holds memory of it."""
    number = UNKNOWN if gpu["index"] is None else gpu["index"]
    kind = f" ({gpu['gpu_class']})" if gpu["gpu_class"] else ""
    yield f"{number}  {gpu['name'] or UNKNOWN}{kind}, {gpu['uuid']}"
    yield f"   {', '.join(_state(gpu))}"
    if gpu["problem"]:
        yield f"   not used: {gpu['problem']}"
    for process in gpu["foreign"] or ():
        held = show_bytes(process["held_bytes"])
        yield f"   held by pid {process['pid']} ({process['command'] or '?'}), no engine of ours: {held}"


def _state(gpu: dict[str, Any]) -> Iterator[str]:
    words = {"ours": "in use", "taken": "taken by others"}
    yield words.get(gpu["state"], gpu["state"]) + (f" by {', '.join(gpu['shards'])}" if gpu["shards"] else "")
    yield f"memory free {part(gpu['free_bytes'], gpu['total_bytes'])}"
    if gpu["unified"]:
        yield "which is main memory"
    if gpu["slice_of"]:
        yield f"a slice of {gpu['slice_of']}"
    if gpu["utilization"] is not None:
        yield f"busy {gpu['utilization']:.0%}"
    if gpu["ecc"] is not None:
        errors = "" if gpu["ecc_errors"] is None else f" ({gpu['ecc_errors']} uncorrected errors)"
        yield f"ECC {'on' if gpu['ecc'] else 'off'}{errors}"


def fabric_line(fabric: dict[str, Any]) -> str:
    """Show one network that a node is said to be on."""
    if fabric["attached"]:
        state = f"attached, {fabric['rate'] or UNKNOWN}"
    else:
        state = f"not attached: {fabric['problem'] or 'no link'}"
    return f"{fabric['name']} through {fabric['adapter']}: {state}"


def weights_line(holding: dict[str, Any]) -> str:
    """Show weights that a node holds."""
    shared = ", shared" if holding["shared"] else ""
    partly = "" if holding["complete"] else ", not complete"
    where = f", at {holding['path']}" if holding["source"] else ""
    return (
        f"{holding['source'] or holding['path']}  {show_bytes(holding['size_bytes'])}{shared}{partly}{where}"
    )
