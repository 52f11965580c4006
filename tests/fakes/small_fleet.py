"""A few scripted agents on one server, each with signs of life, all ended with the block."""

import asyncio
from types import TracebackType
from typing import Any, Self

from fakes.linked_agent import LinkedAgent
from fakes.running_server import RunningServer


class SmallFleet:
    """Registers agents under names; `agents` holds the latest connection of each."""

    def __init__(self, server: RunningServer) -> None:
        self.server = server
        self.agents: dict[str, LinkedAgent] = {}
        self._beating: dict[str, asyncio.Task[None]] = {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in tuple(self.agents):
            await self.leave(name)

    async def join(self, name: str, **given: Any) -> LinkedAgent:
        """Connect and register an agent, again if it was there before."""
        agent = self.agents[name] = self.server.agent()
        await agent.open()
        await agent.register(node=name, **given)
        self._beating[name] = asyncio.create_task(agent.beat())
        return agent

    async def leave(self, name: str) -> None:
        """End the connection of an agent, as a partition does."""
        self._beating[name].cancel()
        await asyncio.gather(self._beating.pop(name), return_exceptions=True)
        await self.agents.pop(name).close()
