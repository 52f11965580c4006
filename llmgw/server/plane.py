"""Build the control plane and the router from a database: what reads what, and who wakes whom."""

import asyncio
from collections import Counter
from collections.abc import Mapping

import msgspec

from llmgw import __version__
from llmgw.control.desired import Desired
from llmgw.control.fleet import ObservedFleet
from llmgw.control.history import LATEST, NodeHistory
from llmgw.control.hub import Greeting, Hub
from llmgw.control.logs import Logs
from llmgw.control.needs import Needs
from llmgw.control.operations import Operations
from llmgw.control.passwords import Passwords
from llmgw.control.peaks import Peaks
from llmgw.control.people import People
from llmgw.control.reconciler import Reconciler, Timings
from llmgw.control.roster import Roster
from llmgw.control.upkeep import Upkeep
from llmgw.control.weights import Weights
from llmgw.core.ids import Generation
from llmgw.engines.engine import Engine
from llmgw.router.app import Router
from llmgw.runtime.clock import Clock
from llmgw.runtime.descriptors import DescriptorWatch
from llmgw.store.catalog import CatalogStore
from llmgw.store.database import Database
from llmgw.store.history import HistoryStore
from llmgw.store.keys import KeyStore
from llmgw.store.nodes import NodeStore
from llmgw.store.peaks import PeakStore
from llmgw.store.settings import SettingStore
from llmgw.store.users import UserStore


class Plane(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a control plane that a server runs."""

    hub: Hub
    reconciler: Reconciler
    roster: Roster
    history: NodeHistory
    peaks: Peaks
    descriptors: DescriptorWatch
    operations: Operations


class RouterLoad:
    """What the router has under way, as the control plane asks for it.

    It is counted once in a turn of the loop, however many replicas are asked about: nothing comes or goes within one.
    """

    def __init__(self, router: Router) -> None:
        self._router = router
        self._counts: Counter[tuple[str | None, Generation | None]] | None = None

    def count(self, replica: str, generation: Generation) -> int:
        """Count the requests that this copy of a replica is answering, without those of its other generations."""
        if self._counts is None:
            requests = self._router.in_flight()
            self._counts = Counter((request.replica, request.generation) for request in requests)
            asyncio.get_running_loop().call_soon(self._forget)
        return self._counts[replica, generation]

    def _forget(self) -> None:
        self._counts = None


async def build_plane(
    database: Database,
    router: Router,
    *,
    clock: Clock,
    engines: Mapping[str, Engine],
    timings: Timings,
    heartbeat_s: float,
) -> Plane:
    """Read what is stored, count this start, and join the parts.

    Raises:
        StoreFailed: the database cannot be read or written.
    """
    catalogs, nodes = CatalogStore(database), NodeStore(database)
    epoch, known = await SettingStore(database).next_epoch(), await nodes.known()
    desired = Desired(await catalogs.load(), await catalogs.created())
    records = HistoryStore(database)
    history = NodeHistory(records, clock, latest=await records.latest(LATEST))
    fleet = ObservedFleet(clock, intents=await nodes.intents(), record=history.record)
    hub = Hub(
        fleet, clock=clock, greeting=Greeting(epoch=epoch, heartbeat_s=heartbeat_s, version=__version__)
    )
    logs = Logs(hub)
    people = People(UserStore(database), Passwords(), clock=clock)
    await people.load()
    hub.listen_to_follows(logs.follows)
    kept = PeakStore(database)
    peaks = Peaks(kept, fleet, clock=clock, known=await kept.load())
    reconciler = Reconciler(
        desired,
        fleet,
        hub,
        clock=clock,
        epoch=epoch,
        engines=engines,
        known=known,
        timings=timings,
        in_flight=RouterLoad(router),
        publish=router.replace_table,
        needs=Needs(engines, peaks),
    )
    roster = Roster(nodes, fleet, clock=clock, known=known)
    operations = Operations(
        desired,
        fleet,
        reconciler,
        Upkeep(fleet, reconciler, roster, history, clock=clock),
        logs,
        people,
        catalog_store=catalogs,
        key_store=KeyStore(database),
        engines=engines,
        clock=clock,
        version=__version__,
        epoch=epoch,
        set_keys=router.set_keys,
        weights=Weights(hub, desired, fleet),
    )
    await operations.load_keys()
    return Plane(
        hub=hub,
        reconciler=reconciler,
        roster=roster,
        history=history,
        peaks=peaks,
        descriptors=DescriptorWatch(clock),
        operations=operations,
    )
