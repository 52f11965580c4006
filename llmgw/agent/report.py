"""What this node says of itself: when it registers, and with every heartbeat."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import msgspec

from llmgw import __version__
from llmgw.agent.discovery.disks import Disks
from llmgw.agent.discovery.engines import EngineProbe
from llmgw.agent.discovery.fabrics import read_fabrics
from llmgw.agent.discovery.gpus.probe import FIRST_LIMIT_S, LIMIT_S, GpuProbe
from llmgw.agent.discovery.gpus.sighting import Sighting
from llmgw.agent.discovery.hardware import read_machine, read_memory
from llmgw.agent.discovery.route import Server, source_address
from llmgw.agent.patience import Looks, call_within
from llmgw.core.fleet.beat import ShardUse
from llmgw.core.fleet.hardware import EngineInstall, Fabric, Machine
from llmgw.core.fleet.snapshot import Introduction
from llmgw.core.fleet.weights import Holding
from llmgw.wire.frames import Heartbeat

log = logging.getLogger("llmgw.agent.report")

ROUTE_LIMIT_S = 10.0
PROBE_EVERY_S = 60.0
LOOK_LIMIT_S = 2.0


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """What configuration says of the node.

    Attributes:
        address: None is found by the route to the server.
        fabrics: adapter by the network it is on.
    """

    node: str
    address: str | None = None
    pool: str = "default"
    labels: Mapping[str, str] = {}
    fabrics: Mapping[str, str] = {}


class Reporter:
    """Collects what the node says. Owner of what was seen and said last, and of the address last found."""

    def __init__(
        self,
        identity: Identity,
        disks: Disks,
        probe: EngineProbe,
        gpus: GpuProbe,
        *,
        root: Path = Path("/"),
        changed: Callable[[], None] | None = None,
        weights: Callable[[], tuple[Holding, ...] | None] = lambda: None,
        uses: Callable[[], Awaitable[tuple[ShardUse, ...] | None]] | None = None,
    ) -> None:
        """Take what looks at the node.

        Args:
            root: where /proc and /sys are.
            weights: gives the weights as last seen; None before anybody looked.
            uses: looks at the memory that shards hold; None where there are no shards.
            changed: called when the node has to introduce itself anew: its GPUs or their driver are others.
        """
        self._identity = identity
        self._disks = disks
        self._probe = probe
        self._gpus = gpus
        self._root = root
        self._changed = changed
        self._weights = weights
        self._uses = uses
        self._told_weights: tuple[Holding, ...] | None = None
        self._looks = Looks()
        self._installs = probe.expected()
        self._looked = asyncio.Event()
        self._told: tuple[EngineInstall, ...] | None = None
        self._fabrics: tuple[Fabric, ...] = ()
        self._told_fabrics: tuple[Fabric, ...] | None = None
        self._introduced: Sighting | None = None
        self._address = identity.address or "127.0.0.1"

    def installs(self) -> tuple[EngineInstall, ...]:
        """Return the engines as last seen."""
        return self._installs

    def address(self) -> str:
        """Return the address that engines listen on."""
        return self._address

    async def probe_engines(self) -> None:
        """Look at the engines now; at the first time each is known as soon as it has been looked at."""
        self._see(await self._probe.installs(None if self._looked.is_set() else self._see))
        self._looked.set()

    async def looked(self, within_s: float) -> None:
        """Return when all engines have been looked at once, or the time is over."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._looked.wait()

    def _see(self, found: tuple[EngineInstall, ...]) -> None:
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
        """Look at the engines now, and again and again; what changed goes with the next heartbeat."""
        while True:
            await self.probe_engines()
            await asyncio.sleep(every_s)

    async def introduction(self, server: Server) -> Introduction:
        """Describe the whole node to `server`, but for its shards, which the caller adds at the last moment.

        Raises:
            OSError: no route to the server says which address this node has.
            TimeoutError: its name could not be resolved in time.
        """
        if self._identity.address is None:
            self._address = await call_within(ROUTE_LIMIT_S, lambda: source_address(server))
        machine = await self._machine()
        self._told, self._told_fabrics = self._installs, machine.fabrics
        self._told_weights = self._weights()
        return Introduction(
            node=self._identity.node,
            address=self._address,
            version=__version__,
            pool=self._identity.pool,
            labels=dict(self._identity.labels),
            machine=machine,
            engines=self._installs,
            weights=self._told_weights,
        )

    async def heartbeat(self) -> Heartbeat:
        """Say what changes by itself; engines and fabrics only when they differ from what was said last."""
        seen = await self._gpus.sighting()
        fabrics, held = await self._look_at_fabrics(), self._weights()
        beat = Heartbeat(
            memory=read_memory(self._root),
            filesystems=await self._disks.filesystems(),
            gpus=seen.gpus,
            fabrics=None if self._told_fabrics == fabrics else fabrics,
            engines=None if self._told == self._installs else self._installs,
            weights=None if self._told_weights == held else held,
            uses=None if self._uses is None else await self._uses(),
        )
        self._told_weights = held
        self._told, self._told_fabrics = self._installs, fabrics
        if self._introduced is not None and _is_other(seen, self._introduced):
            log.warning("the GPUs of this node changed: %s", gpus_text(seen))
            if self._changed is not None:
                self._changed()
        return beat

    async def _machine(self) -> Machine:
        root = self._root
        machine = await call_within(ROUTE_LIMIT_S, lambda: read_machine(socket.gethostname(), root))
        seen = await self._gpus.sighting(FIRST_LIMIT_S if self._introduced is None else LIMIT_S)
        if self._introduced is None:
            log.info("GPUs: %s", gpus_text(seen))
        self._introduced = seen
        return msgspec.structs.replace(
            machine,
            filesystems=await self._disks.filesystems(),
            driver=seen.driver,
            cuda=seen.cuda,
            gpus=seen.gpus,
            gpu_problem=seen.problem,
            fabrics=await self._look_at_fabrics(),
        )

    async def _look_at_fabrics(self) -> tuple[Fabric, ...]:
        """Look at the adapters that are named; one that hangs in the kernel stays as it was seen last."""
        named = self._identity.fabrics
        if named:
            try:
                self._fabrics = await self._looks.within(
                    LOOK_LIMIT_S, "fabrics", lambda: read_fabrics(named, self._root)
                )
            except TimeoutError:
                log.warning("the kernel does not tell of the adapters %s", ", ".join(named.values()))
        return self._fabrics


def gpus_text(seen: Sighting) -> str:
    """Say in one line which GPUs there are, and what is wrong with them."""
    said = [f"{gpu.name or gpu.uuid}{f' ({gpu.problem})' if gpu.problem else ''}" for gpu in seen.gpus]
    return "; ".join([", ".join(said) or "none", *([seen.problem] if seen.problem else [])])


def _is_other(seen: Sighting, before: Sighting) -> bool:
    """Tell whether the GPUs, what is wrong with them, or their driver are others than before."""

    def what(one: Sighting) -> object:
        return one.driver, one.cuda, one.problem, [(gpu.uuid, gpu.problem) for gpu in one.gpus]

    return what(seen) != what(before)
