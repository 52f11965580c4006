"""What this node says of itself: when it registers, and with every heartbeat."""

import asyncio
import logging
import socket
from collections.abc import Mapping

import msgspec

from llmgw import __version__
from llmgw.agent.discovery.disks import Disks
from llmgw.agent.discovery.engines import EngineProbe
from llmgw.agent.discovery.hardware import read_machine, read_memory
from llmgw.agent.discovery.route import Server, source_address
from llmgw.agent.patience import call_within
from llmgw.core.fleet.hardware import EngineInstall
from llmgw.core.fleet.snapshot import Introduction
from llmgw.wire.frames import Heartbeat

log = logging.getLogger("llmgw.agent.report")

ROUTE_LIMIT_S = 10.0
PROBE_EVERY_S = 60.0


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """What configuration says of the node; `address` None is found by the route to the server."""

    node: str
    address: str | None = None
    pool: str = "default"
    labels: Mapping[str, str] = {}


class Reporter:
    """Collects what the node says. Owner of the engines as last seen and of the address last found."""

    def __init__(self, identity: Identity, disks: Disks, probe: EngineProbe) -> None:
        self._identity = identity
        self._disks = disks
        self._probe = probe
        self._installs: tuple[EngineInstall, ...] = ()
        self._told: tuple[EngineInstall, ...] | None = None
        self._address = identity.address or "127.0.0.1"

    def installs(self) -> tuple[EngineInstall, ...]:
        """Return the engines as last seen."""
        return self._installs

    def address(self) -> str:
        """Return the address that engines listen on."""
        return self._address

    async def probe_engines(self) -> None:
        """Look at the engines now."""
        found = await self._probe.installs()
        for install in found:
            if install not in self._installs:
                log.info(
                    "engine %s at %s: %s",
                    install.engine,
                    install.path,
                    install.problem or install.version,
                )
        self._installs = found

    async def keep_probing(self, every_s: float = PROBE_EVERY_S) -> None:
        """Look at the engines again and again; what changed goes with the next heartbeat."""
        while True:
            await asyncio.sleep(every_s)
            await self.probe_engines()

    async def introduction(self, server: Server) -> Introduction:
        """Describe the whole node to `server`, but for its shards, which the caller adds at the last moment.

        Raises:
            OSError: no route to the server says which address this node has.
            TimeoutError: its name could not be resolved in time.
        """
        if self._identity.address is None:
            self._address = await call_within(ROUTE_LIMIT_S, lambda: source_address(server))
        machine = await call_within(ROUTE_LIMIT_S, lambda: read_machine(socket.gethostname()))
        machine = msgspec.structs.replace(machine, filesystems=await self._disks.filesystems())
        self._told = self._installs
        return Introduction(
            node=self._identity.node,
            address=self._address,
            version=__version__,
            pool=self._identity.pool,
            labels=dict(self._identity.labels),
            machine=machine,
            engines=self._installs,
        )

    async def heartbeat(self) -> Heartbeat:
        """Say what changes by itself; engines only when they differ from what was said last."""
        engines = None if self._told == self._installs else self._installs
        beat = Heartbeat(memory=read_memory(), filesystems=await self._disks.filesystems(), engines=engines)
        self._told = self._installs
        return beat
