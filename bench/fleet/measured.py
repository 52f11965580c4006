"""The server itself, in a process of its own, with a watch on how late its event loop is."""

import asyncio
import cProfile
import gc
import json
import sys
import time
from typing import Any

import uvloop

from fleet.child import answer_questions, say, stay_on_core
from llmgw.config.server import Listen, Nodes, ServerConfig
from llmgw.runtime.descriptors import raise_limit
from llmgw.runtime.journal import set_up
from llmgw.server.main import Listening, run_server

LOOK_EVERY_S = 0.005


class Watch:
    """Sleeps for a moment over and over, and notes by how much later than asked it woke."""

    def __init__(self) -> None:
        self._late_s: list[float] = []
        self._own_s: list[float] = []
        self._cpu_s = self._began = self._collecting_s = self._longest_s = 0.0
        gc.callbacks.append(self._collects)
        self.begin()

    def begin(self) -> None:
        """Forget what was seen so far."""
        self._late_s, self._own_s = [], []
        self._longest_s = 0.0
        self._cpu_s, self._began = time.process_time(), time.monotonic()

    async def run(self) -> None:
        """Look until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due, used_s = loop.time() + LOOK_EVERY_S, time.process_time()
            await asyncio.sleep(LOOK_EVERY_S)
            late_s = max(0.0, time.monotonic() - due)
            self._late_s.append(late_s)
            # While other programs have the core, the loop is late without having worked.
            self._own_s.append(min(late_s, time.process_time() - used_s))

    def _collects(self, phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            self._collecting_s = time.process_time()
        else:
            self._longest_s = max(self._longest_s, time.process_time() - self._collecting_s)

    def figures(self) -> dict[str, float]:
        """Say what was seen since the beginning.

        Milliseconds by which the loop was late, by which it was late for its own work (what others took of the core
        left out), and that the collector of garbage took at most; the share of a core that was used.
        """
        late, own = sorted(self._late_s) or [0.0], sorted(self._own_s) or [0.0]
        share = (time.process_time() - self._cpu_s) / max(1e-9, time.monotonic() - self._began)
        return {
            "lag_p50_ms": round(1000 * late[len(late) // 2], 1),
            "lag_p99_ms": round(1000 * late[min(len(late) - 1, len(late) * 99 // 100)], 1),
            "lag_max_ms": round(1000 * late[-1], 1),
            "own_lag_p99_ms": round(1000 * own[min(len(own) - 1, len(own) * 99 // 100)], 1),
            "own_lag_max_ms": round(1000 * own[-1], 1),
            "collector_max_ms": round(1000 * self._longest_s, 1),
            "cpu": round(share, 3),
            "memory_mib": _resident_mib(),
        }


def _resident_mib() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096 >> 20


async def main(given: dict[str, Any]) -> None:
    """Serve until the parent goes."""
    stop, watch = asyncio.Event(), Watch()
    profile = cProfile.Profile(time.process_time) if given.get("profile") else None
    config = ServerConfig(
        data_dir=given["data_dir"], listen=Listen(**given["listen"]), nodes=Nodes(**given.get("nodes", {}))
    )

    async def answer(word: str) -> Any:
        if word == "begin":
            watch.begin()
            if profile is not None:
                profile.enable()
        elif profile is not None:
            profile.disable()
            profile.dump_stats(given["profile"])
        return watch.figures()

    def listens(at: Listening) -> None:
        say({"client": at.client, "admin": at.admin, "agents": at.agents, "now": time.monotonic()})

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(run_server(config, stop=stop, on_listening=listens))
        watching = tasks.create_task(watch.run())
        await answer_questions(answer)
        stop.set()
        watching.cancel()


if __name__ == "__main__":
    stay_on_core()
    set_up()
    raise_limit()
    gc.collect()
    uvloop.run(main(json.loads(sys.argv[1])))
