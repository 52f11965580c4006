"""An agent without its machine's engines: real link, supervisor, records and processes, the fake engine."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Self

from fakes.scripted_engine import INSTALL, FakeEngine

from llmgw.agent.commands import Commands
from llmgw.agent.discovery.gpus.sighting import Sighting
from llmgw.agent.discovery.route import Server
from llmgw.agent.fetcher.fetcher import Fetcher
from llmgw.agent.fetcher.web import Web
from llmgw.agent.home import Home, Timings
from llmgw.agent.link import AgentLink
from llmgw.agent.logs.node_logs import NodeLogs
from llmgw.agent.records import Records
from llmgw.agent.state_dir import StateDir
from llmgw.agent.stock import Stock
from llmgw.agent.supervisor import Supervisor
from llmgw.agent.weights import Weights
from llmgw.agent.weights_cache import WeightsCache
from llmgw.core.fleet.catalog import Profile
from llmgw.core.fleet.hardware import EngineInstall
from llmgw.core.fleet.shards import Phase, ShardSpec, ShardState
from llmgw.core.fleet.snapshot import Introduction
from llmgw.core.ids import Generation
from llmgw.runtime.clock import Clock, SystemClock
from llmgw.wire.frames import Heartbeat

QUICK = Timings(poll_starting_s=0.05, poll_ready_s=0.05)


class FakeAgent:
    """Node "n1" with its state below `folder`, adopting what it finds there; leaving it stops its engines."""

    def __init__(
        self,
        folder: Path,
        ports: tuple[int, ...] = (),
        *,
        timings: Timings = QUICK,
        installs: tuple[EngineInstall, ...] = (INSTALL,),
        stop_grace_s: float = 5.0,
        address: str = "127.0.0.1",
        engine: str = "fake",
        link_clock: Clock | None = None,
        gpus: Callable[[], Sighting] = Sighting,
        hub: str = "http://127.0.0.1:9",
    ) -> None:
        self.state_dir = StateDir(str(folder))
        self.state_dir.make()
        self.reported: list[ShardState] = []
        self.weights = folder / "weights.gguf"
        self.weights.write_bytes(b"GGUF")
        web = Web(hub=hub, token=lambda: None, silent_s=timings.silent_fetch_s / 5)
        self.fetcher = Fetcher(
            WeightsCache(folder / "weights"),
            web,
            SystemClock(),
            silent_s=timings.silent_fetch_s,
            retry_s=timings.retry_fetch_s,
            ended=lambda: self.stock.look_soon(),
        )
        weights = Weights(self.fetcher.cache, self.fetcher)
        self.home = Home(
            node="n1",
            state_dir=self.state_dir,
            records=Records(self.state_dir.records),
            engines={engine: FakeEngine(stop_grace_s=stop_grace_s)},
            installs=lambda: installs,
            address=lambda: address,
            report=self._report,
            clock=SystemClock(),
            timings=timings,
            weights=weights,
            gpus=gpus,
        )
        self.supervisor = Supervisor(self.home)
        self.stock = Stock(
            weights, shards=self.supervisor.specs, say=lambda frame: self.link.reply(frame), every_s=0.1
        )
        self.logs = NodeLogs(
            "n1",
            self.state_dir,
            shards=self.supervisor.shards,
            say=lambda frame: self.link.reply(frame),
            clock=SystemClock(),
        )
        self.link = AgentLink(
            tuple(Server("127.0.0.1", port) for port in ports),
            introduce=self._introduction,
            shards=self.supervisor.shards,
            heartbeat=self._heartbeat,
            take=Commands(self.supervisor, self.logs.desk, self.stock).take,
            opened=self.logs.desk.reset,
            clock=link_clock or SystemClock(),
            share=lambda: 0.1,
        )
        self._dials = bool(ports)
        self._news = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def spec(self, *args: str, counter: int = 1, shard: str = "m.0.0", **profile: object) -> ShardSpec:
        given = {"name": "p", "engine": "fake", "weights": f"file://{self.weights}", "args": args} | profile
        made = Profile(**given)  # type: ignore[arg-type] # a test names fields of Profile
        return ShardSpec(
            shard=shard,
            replica=shard.rpartition(".")[0],
            model="m",
            ordinal=0,
            generation=Generation(1, counter),
            fingerprint=made.fingerprint(),
            profile=made,
        )

    async def __aenter__(self) -> Self:
        self._tasks.append(asyncio.create_task(self.supervisor.run()))
        await self.supervisor.adopt()
        await self.stock.open()
        self._tasks.append(asyncio.create_task(self.stock.run()))
        if self._dials:
            self._tasks.append(asyncio.create_task(self.logs.run()))
            self._tasks.append(asyncio.create_task(self.link.run()))
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.supervisor.stop_all("the test is over")
        await self.leave()

    async def leave(self) -> None:
        """End as a SIGTERM ends an agent: engines go on."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.fetcher.close()

    async def phase(self, phase: Phase, shard: str = "m.0.0", within_s: float = 20.0) -> ShardState:
        """Wait until the latest report of the shard is of this phase."""
        try:
            async with asyncio.timeout(within_s):
                while not (latest := self.states(shard)[-1:]) or latest[0].phase != phase:
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise AssertionError(f"not {phase} within {within_s} s: {self.reported[-5:]}") from None
        return latest[0]

    def states(self, shard: str = "m.0.0") -> list[ShardState]:
        return [state for state in self.reported if state.shard == shard]

    def phases(self, shard: str = "m.0.0") -> list[Phase]:
        return [state.phase for state in self.states(shard)]

    def _report(self, state: ShardState) -> None:
        self.reported.append(state)
        self._news.set()
        self.link.report(state)

    async def _introduction(self, server: Server) -> Introduction:
        return Introduction(node="n1", address="127.0.0.1")

    async def _heartbeat(self) -> Heartbeat:
        return Heartbeat()
