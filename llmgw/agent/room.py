"""Whether a launch finds the memory it needs: what an engine before it held comes back a while after its end.

Each kind of memory is one function in CHECKS: what is short, in words that name who holds it, or None. A launch waits
while any of them is short, up to a limit, and fails with their words then.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec

from llmgw.agent.discovery.hardware import read_memory
from llmgw.agent.home import Home
from llmgw.agent.patience import call_within
from llmgw.agent.processes import PROC
from llmgw.core.fleet.catalog import Profile
from llmgw.core.units import GIB, KIB, show_bytes, show_seconds

LOOK_LIMIT_S = 10.0
MOST_HOLDERS = 3
_LONGEST_COMMAND = 80


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """A process and the main memory that only its end would give back; files it has mapped do not count."""

    pid: int
    command: str
    held_bytes: int

    def __str__(self) -> str:
        return f"pid {self.pid} ({self.command}) {show_bytes(self.held_bytes)}"


def main_memory_short(profile: Profile) -> str | None:
    """Say that main memory is short for a profile, and who holds most of it; None when it is not, or not known."""
    needed_bytes = (profile.min_memory_gb or 0.0) * GIB
    available_bytes = read_memory().available_bytes
    if not needed_bytes or available_bytes is None or available_bytes >= needed_bytes:
        return None
    holders = ", ".join(map(str, largest(MOST_HOLDERS))) or "nobody that can be seen"
    return (
        f"needs {show_bytes(int(needed_bytes))} of main memory, {show_bytes(available_bytes)} are available; "
        f"most is held by {holders}"
    )


Check = Callable[[Profile], str | None]
CHECKS: tuple[Check, ...] = (main_memory_short,)


async def wait_for_room(
    profile: Profile,
    home: Home,
    told: asyncio.Event,
    note: Callable[[str], None],
    checks: tuple[Check, ...] = CHECKS,
) -> str | None:
    """Wait until nothing that a profile needs is short, or until `told` is set.

    Args:
        note: takes what is short, once, when there is something to wait for.

    Returns:
        What is short still after `room_s`; None when the launch may go on.
    """
    ends_now, noted = home.clock.now() + home.timings.room_s, False
    while short := await _short(profile, checks):
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
        Holder(pid=int(entry.name), command=_command(entry), held_bytes=held_bytes)
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


async def _short(profile: Profile, checks: tuple[Check, ...]) -> str | None:
    for check in checks:
        try:
            short = await call_within(LOOK_LIMIT_S, partial(check, profile))
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


def _command(entry: Path) -> str:
    # Not the command line: reading that waits for a process that hangs in the kernel, and may show secrets.
    try:
        return (entry / "comm").read_text(errors="replace").strip()[:_LONGEST_COMMAND]
    except OSError:
        return "?"
