"""Whether a launch finds the memory it needs: what an engine before it held comes back a while after its end.

Each kind of memory is one function in CHECKS: what is short, in words that name who holds it, or None. A launch waits
while any of them is short, up to a limit, and fails with their words then.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from math import ceil
from pathlib import Path

import msgspec

from llmgw.agent.discovery.hardware import read_memory
from llmgw.agent.home import Home
from llmgw.agent.patience import call_within
from llmgw.agent.processes import PROC, command_of
from llmgw.core.fleet.hardware import Gpu, GpuProcess
from llmgw.core.fleet.shards import ShardSpec
from llmgw.core.placement.gpus import WHOLE_SHARE
from llmgw.core.units import GIB, KIB, show_bytes, show_seconds

LOOK_LIMIT_S = 10.0
MOST_HOLDERS = 3


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """A process and the main memory that only its end would give back; files it has mapped do not count."""

    pid: int
    command: str
    held_bytes: int

    def __str__(self) -> str:
        return f"pid {self.pid} ({self.command}) {show_bytes(self.held_bytes)}"


def main_memory_short(spec: ShardSpec, home: Home) -> str | None:
    """Say that main memory is short for a shard, and who holds most of it; None when it is not, or not known."""
    needed_bytes = _promised(spec)
    available_bytes = read_memory(home.root).available_bytes
    if not needed_bytes or available_bytes is None or available_bytes >= needed_bytes:
        return None
    holders = ", ".join(map(str, largest(MOST_HOLDERS))) or "nobody that can be seen"
    return (
        f"needs {show_bytes(needed_bytes)} of main memory, {show_bytes(available_bytes)} are available; "
        f"most is held by {holders}"
    )


def gpu_memory_short(spec: ShardSpec, home: Home) -> str | None:
    """Say which of a shard's own GPUs cannot give what it was promised, and who holds it; None when all can."""
    claim = spec.claim
    if claim is None or not claim.gpus:
        return None
    seen = home.gpus()
    found = {gpu.uuid: gpu for gpu in seen.gpus}
    for uuid in claim.gpus:
        gpu = found.get(uuid)
        if gpu is None:
            said = f": {seen.problem}" if seen.problem else ""
            return f"needs GPU {uuid}, which is not on this node any more{said}"
        if short := gpu_short(gpu, claim.gpu_bytes, seen.holders.get(uuid)):
            return short
    return None


def gpu_short(gpu: Gpu, asked_bytes: int | None, holders: tuple[GpuProcess, ...] | None) -> str | None:
    """Say why a GPU cannot give so much of its memory now; None when it can, or nobody knows.

    Args:
        asked_bytes: None takes it whole, but for the little that drivers keep.
        holders: all processes on it; None when nobody can tell.
    """
    name = f"GPU {gpu.uuid} ({gpu.name})" if gpu.name else f"GPU {gpu.uuid}"
    if gpu.problem is not None:
        return f"needs {name}, which cannot be used: {gpu.problem}"
    # The memory of one that shares main memory is looked at there.
    if gpu.free_bytes is None or gpu.total_bytes is None or gpu.unified:
        return None
    needed_bytes = ceil(WHOLE_SHARE * gpu.total_bytes) if asked_bytes is None else asked_bytes
    if gpu.free_bytes >= needed_bytes:
        return None
    return (
        f"needs {show_bytes(needed_bytes)} of the memory of {name}, {show_bytes(gpu.free_bytes)} of "
        f"{show_bytes(gpu.total_bytes)} are free; {_held_by(holders)}"
    )


Check = Callable[[ShardSpec, Home], str | None]
CHECKS: tuple[Check, ...] = (main_memory_short, gpu_memory_short)


async def wait_for_room(
    spec: ShardSpec,
    home: Home,
    told: asyncio.Event,
    note: Callable[[str], None],
    checks: tuple[Check, ...] = CHECKS,
) -> str | None:
    """Wait until nothing that a shard needs is short, or until `told` is set.

    Args:
        note: takes what is short, once, when there is something to wait for.

    Returns:
        What is short still after `room_s`; None when the launch may go on.
    """
    ends_now, noted = home.clock.now() + home.timings.room_s, False
    while short := await _short(spec, home, checks):
        if home.clock.now() >= ends_now:
            return f"{short} (waited {show_seconds(home.timings.room_s)} for it)"
        if not noted:
            noted = True
            note(f"waits for memory: {short}")
        try:
            async with asyncio.timeout(home.timings.poll_room_s):
                await told.wait()
            return None
        except TimeoutError:
            continue
    return None


def largest(most: int, proc: Path = PROC) -> tuple[Holder, ...]:
    """Find the processes that hold most of main memory."""
    found = [held for entry in proc.iterdir() if entry.name.isdecimal() and (held := _held(entry))]
    ordered = sorted(found, key=lambda pair: pair[1], reverse=True)[:most]
    return tuple(
        Holder(pid=int(entry.name), command=command_of(int(entry.name), proc) or "?", held_bytes=held_bytes)
        for entry, held_bytes in ordered
    )


def parse_held(text: str) -> int:
    """Read from /proc/PID/status how many bytes a process holds that no file backs."""
    held = 0
    for line in text.splitlines():
        name, _, value = line.partition(":")
        words = value.split()
        if name in ("RssAnon", "RssShmem") and words and words[0].isdecimal():
            held += int(words[0]) * KIB
    return held


async def _short(spec: ShardSpec, home: Home, checks: tuple[Check, ...]) -> str | None:
    for check in checks:
        try:
            short = await call_within(LOOK_LIMIT_S, partial(check, spec, home))
        except TimeoutError:
            # A kernel that does not answer says nothing about memory, and a launch must not hang on it.
            continue
        if short is not None:
            return short
    return None


def _held(entry: Path) -> tuple[Path, int] | None:
    try:
        return entry, parse_held((entry / "status").read_text(errors="replace"))
    except OSError:
        return None


def _promised(spec: ShardSpec) -> int:
    """Tell how much of main memory a shard was promised, bytes; a server that does not say goes by its profile."""
    if spec.claim is not None and spec.claim.memory_bytes is not None:
        return spec.claim.memory_bytes
    return int((spec.profile.min_memory_gb or 0.0) * GIB)


def _held_by(holders: tuple[GpuProcess, ...] | None) -> str:
    if not holders:
        return (
            "the driver does not tell who holds it" if holders is None else "nobody that can be seen holds it"
        )
    ordered = sorted(holders, key=lambda one: one.held_bytes or 0, reverse=True)[:MOST_HOLDERS]
    named = [f"pid {one.pid} ({one.command or '?'}) {show_bytes(one.held_bytes)}" for one in ordered]
    return f"most is held by {', '.join(named)}"
