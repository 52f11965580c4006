"""The faults by name, and playing one of them in a folder of its own."""

import tempfile
import time
import traceback
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from faults import (
    agent_killed,
    agent_killed_early,
    all_cut,
    bad_engines,
    partition,
    records,
    server_killed,
    server_restarted,
    server_stopped,
    state_disk,
)
from faults.tally import Missing, Tally

FAULTS: dict[str, Callable[..., None]] = {
    "agent_killed": agent_killed.run,
    "agent_killed_early": agent_killed_early.run,
    "server_killed": server_killed.run,
    "server_restarted": server_restarted.run,
    "partition": partition.run,
    "all_cut": all_cut.run,
    "server_stopped": server_stopped.run,
    "bad_engines": bad_engines.run,
    "records": records.run,
    "state_disk": state_disk.run,
}


ANY_ENGINE = frozenset({"server_restarted"})
"""Faults that can be played with an engine which is not the bench's own: they ask nothing of it but answers."""

AT_ONCE = 4
"""Short plays side by side: most of each is waiting for a time to pass."""


def play_all(
    names: Iterable[str], *, rounds: int, short: bool, program: tuple[str, ...] | None = None
) -> list[Tally]:
    """Play faults, one after the other, or a few at once when they are short; returns their accounts in order.

    What ends the caller early (a signal) waits for the plays that have begun, so that nothing of them stays.

    Args:
        program: the engine of those that can be played with any; None for the bench's own.
    """
    pool = ThreadPoolExecutor(AT_ONCE if short else 1)
    try:
        return list(pool.map(lambda name: play(name, rounds=rounds, short=short, program=program), names))
    finally:
        pool.shutdown(cancel_futures=True)


def play(name: str, *, rounds: int, short: bool, program: tuple[str, ...] | None = None) -> Tally:
    """Play one fault and account for it; whatever goes wrong with it is an entry of its tally."""
    tally = Tally(name, rounds=rounds, short=short)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix=f"llmgw-{name}-") as folder:
        try:
            if program is not None and name in ANY_ENGINE:
                FAULTS[name](tally, Path(folder), program)
            else:
                FAULTS[name](tally, Path(folder))
        except Missing as missing:
            tally.wrong(f"not played: {missing}")
        except Exception:  # noqa: BLE001 - one fault that broke the bench must not hide what the others found
            tally.wrong(traceback.format_exc(limit=-3))
    tally.measure("took_s", time.monotonic() - began)
    return tally
