"""Many simulated agents in one process, which is told how many and asked what they have seen."""

import asyncio
import json
import random
import sys
from typing import Any

import uvloop

from fleet.agent import Agent, Counts
from fleet.child import answer_questions, say, stay_on_core
from fleet.said import heartbeats, register
from llmgw.runtime.descriptors import raise_limit

AT_ONCE = 25
DIAL_EVERY_S = 0.05
"""New agents come at a steady rate: five hundred a second."""


class Herd:
    """Agents number 0 and up."""

    def __init__(self, given: dict[str, Any]) -> None:
        host, _, port = given["address"].rpartition(":")
        self._address = (host, int(port))
        self._serving = given["serving"]
        self._chance = random.Random(1)
        self._agents: list[Agent] = []
        self.counts = Counts()

    async def answer(self, word: str, *more: Any) -> Any:
        """Do what the parent asks."""
        if word == "grow":
            await self._grow(more[0])
        return vars(self.counts) | {"agents": len(self._agents)}

    async def _grow(self, count: int) -> None:
        while len(self._agents) < count:
            for _ in range(min(AT_ONCE, count - len(self._agents))):
                self._add()
            await asyncio.sleep(DIAL_EVERY_S)

    def _add(self) -> None:
        number = len(self._agents)
        said = register(number, serving=self._serving)
        agent = Agent(self._address, said, self.counts, self._chance.random, number=number)
        self._agents.append(agent)
        agent.dial()

    def end(self) -> None:
        """Let all of them go."""
        for agent in self._agents:
            agent.end()


async def main(given: dict[str, Any]) -> None:
    """Serve the parent until it goes."""
    herd = Herd(given)
    say({"beat_bytes": len(heartbeats()[0])})
    await answer_questions(herd.answer)
    herd.end()


if __name__ == "__main__":
    stay_on_core()
    raise_limit()
    uvloop.run(main(json.loads(sys.argv[1])))
