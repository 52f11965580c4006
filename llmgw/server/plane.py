"""Build the control plane and the router from a database: what reads what, and who wakes whom."""

from collections.abc import Mapping

import msgspec

from llmgw import __version__
from llmgw.control.desired import Desired
from llmgw.control.fleet import ObservedFleet
from llmgw.control.hub import Greeting, Hub
from llmgw.control.operations import Operations
from llmgw.control.reconciler import Reconciler, Timings
from llmgw.control.roster import Roster
from llmgw.engines.engine import Engine
from llmgw.router.app import Router
from llmgw.runtime.clock import Clock
from llmgw.store.catalog import CatalogStore
from llmgw.store.database import Database
from llmgw.store.keys import KeyStore
from llmgw.store.nodes import NodeStore
from llmgw.store.settings import SettingStore


class Plane(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a control plane that a server runs."""

    hub: Hub
    reconciler: Reconciler
    roster: Roster
    operations: Operations


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
    fleet = ObservedFleet(clock)
    hub = Hub(
        fleet, clock=clock, greeting=Greeting(epoch=epoch, heartbeat_s=heartbeat_s, version=__version__)
    )
    reconciler = Reconciler(
        desired,
        fleet,
        hub,
        clock=clock,
        epoch=epoch,
        engines=engines,
        known=known,
        timings=timings,
        publish=router.replace_table,
    )
    operations = Operations(
        desired,
        fleet,
        reconciler,
        catalog_store=catalogs,
        key_store=KeyStore(database),
        engines=engines,
        clock=clock,
        version=__version__,
        epoch=epoch,
        set_keys=router.set_keys,
    )
    await operations.load_keys()
    roster = Roster(nodes, fleet, clock=clock, known=known)
    return Plane(hub=hub, reconciler=reconciler, roster=roster, operations=operations)
