"""`llmgw server`: reads the configuration, builds everything from it, runs it, and stops it the other way round.

What stops when, on SIGTERM: the client port takes no new connection and lets requests in flight finish for up to ten
seconds, and whoever still waits is told that the server ends; then the admin API, the reconciler, the agents'
connections, the router's to engines, and the database end. Engines run on. A second signal ends the process at once.
"""

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, closing, contextmanager
from pathlib import Path
from socket import socket
from typing import Any

import click
import msgspec
import uvloop

from llmgw import __version__
from llmgw.config.addresses import split_address
from llmgw.config.load import load, problems_text, read_yaml
from llmgw.config.server import DEFAULT_PATH, ServerConfig
from llmgw.control.operations import Operations
from llmgw.control.reconciler import Timings
from llmgw.core.backoff import LONGEST_S
from llmgw.core.errors import BadInput, Conflict, LlmgwError
from llmgw.engines.llamacpp import ENVIRONMENT
from llmgw.engines.registry import engines
from llmgw.router.app import Router
from llmgw.runtime.clock import Clock, SystemClock
from llmgw.runtime.descriptors import raise_limit
from llmgw.runtime.journal import set_up
from llmgw.runtime.resources import packaged
from llmgw.server.activation import inherited_client_socket
from llmgw.server.app import HttpServer, client_surface, http_server
from llmgw.server.data_dir import DATABASE, announced, claimed
from llmgw.server.listeners import Listening, address_of, bind
from llmgw.server.opening import until_known
from llmgw.server.plane import Plane, build_plane
from llmgw.store.database import Database
from llmgw.ui.app import admin_app, client_app
from llmgw.ui.pages.routes import Pages

__all__ = ["Listening", "command", "run_server"]

log = logging.getLogger(__name__)

DRAIN_S = 10
ADMIN_DRAIN_S = 2


async def run_server(
    config: ServerConfig,
    *,
    stop: asyncio.Event,
    on_listening: Callable[[Listening], None] | None = None,
    on_no_admin: Callable[[str], None] | None = None,
    clock: Clock | None = None,
    inherited: socket | None = None,
) -> None:
    """Run a server until `stop` is set, then end it in order.

    Args:
        on_listening: told once, when all three addresses answer.
        on_no_admin: told once, after that, the link that makes the first admin, while there is none.
        clock: the machine's own when None.
        inherited: the listening socket of the client port, in place of `listen.client`; it is closed at the end.

    Raises:
        LlmgwError: it cannot start; the message says what to write or to end.
    """
    clock = clock or SystemClock()
    folder = Path(config.data_dir)
    async with AsyncExitStack() as stack:
        stack.enter_context(claimed(folder))
        _warn_of_short_grace(config.nodes.start_grace)
        client, admin, agents = (
            stack.enter_context(closing(bound)) for bound in _bind_all(config, inherited)
        )
        database = await Database.open(folder / DATABASE)
        stack.push_async_callback(database.close)
        router = Router(clock, config.router.max_body)
        stack.push_async_callback(router.close)
        plane = await _build(config, database, router, clock)
        await _apply_file(config.catalog, plane.operations)
        await stack.enter_async_context(plane.hub.listening(agents))
        listening = Listening(client=address_of(client), admin=address_of(admin), agents=address_of(agents))
        pages = Pages(plane.operations)
        servers = _servers(router, plane.operations, pages, client, admin)
        await _serve(
            plane, servers, pages, stop, folder, listening, _greeter(plane, on_listening, on_no_admin)
        )
    log.info("ended")


def _warn_of_short_grace(start_grace_s: float) -> None:
    if start_grace_s < LONGEST_S:
        log.warning(
            "nodes.start_grace is %g s, and an agent that was away may take %g s to dial again: what runs on its node "
            "can be started a second time elsewhere before it has told; write %g s or more",
            start_grace_s,
            LONGEST_S,
            LONGEST_S,
        )


def _bind_all(config: ServerConfig, client: socket | None) -> list[socket]:
    """Bind what is not inherited; all addresses that cannot be are told at once, a line each."""
    bound = [] if client is None else [client]
    faults: list[LlmgwError] = []
    for key in ("client", "admin", "agents")[len(bound) :]:
        try:
            bound.append(bind(*split_address(getattr(config.listen, key)), f"listen.{key}"))
        except LlmgwError as error:
            faults.append(error)
    if faults:
        for one in bound:
            one.close()
        kind = Conflict if all(isinstance(fault, Conflict) for fault in faults) else BadInput
        raise kind("\n".join(map(str, faults)))
    return bound


async def _build(config: ServerConfig, database: Database, router: Router, clock: Clock) -> Plane:
    nodes = config.nodes
    return await build_plane(
        database,
        router,
        clock=clock,
        # Launchers are files of the agent; the server asks adapters about profiles and launches nothing.
        engines=engines({ENVIRONMENT: str(packaged("agent/launchers/llama_server.py"))}),
        timings=Timings(
            unreachable_after_s=nodes.unreachable_after,
            lost_after_s=nodes.lost_after,
            start_grace_s=nodes.start_grace,
            drain_deadline_s=nodes.drain_deadline,
        ),
        heartbeat_s=nodes.heartbeat,
    )


async def _apply_file(path: str | None, operations: Operations) -> None:
    """Apply the catalog file that the configuration names; one that cannot be used leaves the stored catalog."""
    if path is None:
        return
    try:
        document = read_yaml(path)
        try:
            await operations.apply(document.data, dry_run=False, prune=False)
        except BadInput as error:
            raise BadInput(problems_text(document, error.problems), error.problems) from error
    except BadInput as error:
        # Somebody may be restarting this at night: a slip in a file must not take down what is served.
        operations.catalog_problem = str(error)
        log.error("the catalog file was not applied, and the stored catalog stays as it is:\n%s", error)


def _servers(
    router: Router, operations: Operations, pages: Pages, client: socket, admin: socket
) -> list[tuple[HttpServer, socket]]:
    """Make both HTTP servers, in the order in which they end."""
    rest = client_app(operations, find_admin_key=operations.find_admin_key, pages=pages)
    plain = router.plain_protocol_class()
    surface = client_surface(router.asgi, rest)  # type: ignore[arg-type] # Litestar names its own ASGI types
    return [
        (http_server(surface, protocol=router.protocol_class(), drain_s=DRAIN_S), client),
        (http_server(admin_app(operations, pages=pages), protocol=plain, drain_s=ADMIN_DRAIN_S), admin),  # type: ignore[arg-type]
    ]


async def _serve(
    plane: Plane,
    servers: list[tuple[HttpServer, socket]],
    pages: Pages,
    stop: asyncio.Event,
    folder: Path,
    listening: Listening,
    greet: Callable[[Listening], None],
) -> None:
    async with asyncio.TaskGroup() as tasks:
        parts = (plane.reconciler, plane.roster, plane.history, plane.peaks, plane.descriptors)
        loops = [tasks.create_task(part.run()) for part in parts]
        (clients, client), (admins, admin) = servers
        ending = tasks.create_task(stop.wait())
        serving = [
            tasks.create_task(_serve_clients(clients, client, plane, ending)),
            tasks.create_task(admins.serve(sockets=[admin])),
        ]
        await admins.up.wait()
        with announced(folder, listening), _quiet_collector():
            log.info(
                "llmgw %s listens: clients on %s, admin API on %s, agents on %s",
                __version__,
                listening.client,
                listening.admin,
                listening.agents,
            )
            greet(listening)
            await stop.wait()
            log.info("ending; requests in flight have %d s", DRAIN_S)
            # Whoever looks at a page is no request in flight.
            pages.end()
            plane.hub.end_waiting()
            plane.operations.logs.close()
        for (server, _), task in zip(servers, serving, strict=True):
            server.should_exit = True
            await task
        for loop in loops:
            loop.cancel()


def _greeter(
    plane: Plane,
    on_listening: Callable[[Listening], None] | None,
    on_no_admin: Callable[[str], None] | None,
) -> Callable[[Listening], None]:
    def greet(listening: Listening) -> None:
        if on_listening is not None:
            on_listening(listening)
        token = plane.operations.people.first_token()
        if on_no_admin is not None and token is not None:
            on_no_admin(f"http://{listening.client}/login/first?token={token}")

    return greet


async def _serve_clients(server: HttpServer, bound: socket, plane: Plane, ending: asyncio.Task[Any]) -> None:
    """Serve clients as soon as it is known what runs; not at all when the server ends before."""
    known = asyncio.ensure_future(until_known(plane.operations, plane.reconciler))
    try:
        await asyncio.wait((known, ending), return_when=asyncio.FIRST_COMPLETED)
    finally:
        known.cancel()
    if not ending.done():
        await server.serve(sockets=[bound])


@contextmanager
def _quiet_collector() -> Iterator[None]:
    """Keep the garbage collector from walking all that was imported, over and over, while requests pass."""
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


@click.command("server")
@click.option("--config", "path", metavar="FILE", help=f"Configuration file; {DEFAULT_PATH} when not given.")
@click.option("--data-dir", metavar="DIR", help="The folder of the database.")
def command(path: str | None, data_dir: str | None) -> None:
    """Run the control plane: places models on nodes and routes requests to them."""
    set_up()
    raise_limit()
    try:
        config = load(path or DEFAULT_PATH, ServerConfig, may_be_missing=path is None)
        if data_dir is not None:
            config = msgspec.structs.replace(config, data_dir=data_dir)
        client = inherited_client_socket(os.environ, os.getpid())
        if client is not None:
            log.info("clients are served on the socket that systemd handed over, not on listen.client")
        uvloop.run(_until_signalled(config, client))
    except LlmgwError as error:
        click.echo(f"llmgw server: {error}", err=True)
        sys.exit(1)


async def _until_signalled(config: ServerConfig, inherited: socket | None) -> None:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    numbers = (signal.SIGTERM, signal.SIGINT)

    def ask_to_stop() -> None:
        stop.set()
        for number in numbers:
            # A second signal then does what signals do.
            loop.remove_signal_handler(number)

    for number in numbers:
        loop.add_signal_handler(number, ask_to_stop)
    await run_server(config, stop=stop, on_no_admin=_say_first_link, inherited=inherited)


def _say_first_link(link: str) -> None:
    # Not logged: whoever holds the link may make themselves an admin, and logs are kept and shown.
    click.echo(
        f"llmgw server: no admin yet; make the first one at {link} (works once, until the next start)",
        err=True,
    )
