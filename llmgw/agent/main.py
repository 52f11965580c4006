"""The agent's composition root: builds everything from configuration, runs it, and ends it in order."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path

import click
import msgspec

from llmgw.agent.commands import Commands
from llmgw.agent.discovery.disks import Disks, nearest
from llmgw.agent.discovery.engines import ENVIRONMENT, EngineProbe, own_environment
from llmgw.agent.discovery.gpus.probe import GpuProbe
from llmgw.agent.discovery.route import Server
from llmgw.agent.fetcher.fetcher import Fetcher
from llmgw.agent.fetcher.token import hub_token
from llmgw.agent.fetcher.web import Web
from llmgw.agent.home import Home, Timings
from llmgw.agent.inspect import describe
from llmgw.agent.link import AgentLink
from llmgw.agent.logs.node_logs import NodeLogs
from llmgw.agent.records import Records
from llmgw.agent.report import Identity, Reporter
from llmgw.agent.state_dir import StateDir
from llmgw.agent.stock import Stock
from llmgw.agent.supervisor import Supervisor
from llmgw.agent.uses import Uses
from llmgw.agent.weights import Weights
from llmgw.agent.weights_cache import WeightsCache
from llmgw.config.addresses import split_address
from llmgw.config.agent import DEFAULT_PATH, AgentConfig
from llmgw.config.load import load
from llmgw.core.errors import BadInput, LlmgwError
from llmgw.core.fleet.beat import ShardUse
from llmgw.core.fleet.snapshot import Introduction
from llmgw.core.fleet.weights import Holding
from llmgw.core.ids import name_problem
from llmgw.engines.registry import KNOWN, engines
from llmgw.engines.vllm import RAY_LAUNCHER
from llmgw.runtime.clock import Clock, SystemClock
from llmgw.runtime.journal import set_up
from llmgw.runtime.resources import packaged

log = logging.getLogger("llmgw.agent")

ROOT = Path("/")
LOOK_FIRST_S = 3.0
"""How long a node waits for its engines before it registers without what they say; most say it within one."""
LAUNCHER = "agent/launchers/llama_server.py"
OVER_RAY = "agent/launchers/vllm_ray.py"


async def run_agent(
    config: AgentConfig,
    *,
    stop: asyncio.Event,
    stop_engines: bool,
    clock: Clock | None = None,
    root: Path = ROOT,
) -> None:
    """Run an agent until `stop` is set. Handles no signals; cancelling ends it and leaves engines running.

    Args:
        stop_engines: stop the engines at the end; otherwise they go on serving.
        clock: the machine's own when None.
        root: where the /proc and /sys of this node are.

    Raises:
        BadInput: the configuration cannot be used here.
        Conflict: another agent holds the state folder.
    """
    servers = _servers(config)
    identity = _identity(config)
    state_dir = StateDir(config.state_dir)
    state_dir.make()
    with state_dir.held():
        _tell_of_new_name(state_dir, identity.node)
        await _run(config, servers, identity, state_dir, stop, stop_engines, clock or SystemClock(), root)


def _tell_of_new_name(state_dir: StateDir, node: str) -> None:
    if before := state_dir.called(node):
        log.warning(
            "this node was called %r and is %r now: the engines recorded in %s run on and are told of under the new "
            "name; the server takes %r for silent until 'llmgw ctl nodes forget %s', and what an operator wanted of "
            "it (cordon, drain) is not carried over",
            before,
            node,
            state_dir.path,
            before,
            before,
        )


async def _run(
    config: AgentConfig,
    servers: tuple[Server, ...],
    identity: Identity,
    state_dir: StateDir,
    stop: asyncio.Event,
    stop_engines: bool,
    clock: Clock,
    root: Path,
) -> None:
    timings = Timings()
    logs = NodeLogs(
        identity.node,
        state_dir,
        shards=lambda: supervisor.shards(),
        say=lambda frame: link.reply(frame),
        clock=clock,
    )
    weights = _weights(
        config, state_dir, clock, timings, ended=lambda: stock.look_soon(), recording=logs.jobs.recording
    )
    stock = Stock(weights, shards=lambda: supervisor.specs(), say=lambda frame: link.reply(frame), root=root)
    gpus = GpuProbe(state_dir.path, lambda: _sessions(supervisor), root=root)
    reporter = _reporter(
        config,
        identity,
        _folders(config, state_dir),
        gpus,
        root,
        changed=lambda: link.introduce_again(),
        weights=stock.holdings,
        uses=Uses(lambda: supervisor.shards(), root=root).now,
    )
    supervisor = Supervisor(
        Home(
            node=identity.node,
            state_dir=state_dir,
            records=Records(state_dir.records),
            engines=engines(
                {ENVIRONMENT: str(packaged(LAUNCHER)), RAY_LAUNCHER: str(packaged(OVER_RAY))},
            ),
            installs=reporter.installs,
            address=reporter.address,
            report=lambda state: link.report(state),
            clock=clock,
            timings=timings,
            weights=weights,
            gpus=gpus.look,
            root=root,
        )
    )
    link = AgentLink(
        servers,
        introduce=reporter.introduction,
        shards=supervisor.shards,
        heartbeat=reporter.heartbeat,
        take=Commands(supervisor, logs.desk, stock).take,
        opened=logs.desk.reset,
        clock=clock,
    )
    async with contextlib.AsyncExitStack() as ending:
        ending.enter_context(logs.listening())
        ending.push_async_callback(weights.fetcher.close)
        log.info(
            "node %s, state in %s, server %s", identity.node, state_dir.path, ", ".join(map(str, servers))
        )
        async with asyncio.TaskGroup() as group:
            work = _work(supervisor, reporter, link, logs, stock)
            tasks = [group.create_task(part) for part in (supervisor.run(), work)]
            await stop.wait()
            if stop_engines:
                await supervisor.stop_all("the agent is ending")
            for task in tasks:
                task.cancel()
        await weights.fetcher.close()
        log.info("ended%s", "" if stop_engines else "; engines keep running")


async def _work(
    supervisor: Supervisor, reporter: Reporter, link: AgentLink, logs: NodeLogs, stock: Stock
) -> None:
    """Adopt and look around first; only then does the server hear of this node, and of all that it runs.

    An engine that hangs when it is asked for its version keeps nobody waiting: it is told of as one that is being
    looked at, which nothing is placed on.
    """
    await supervisor.adopt()
    async with asyncio.TaskGroup() as group:
        group.create_task(reporter.keep_probing())
        await reporter.looked(LOOK_FIRST_S)
        await stock.open()
        group.create_task(logs.run())
        group.create_task(stock.run())
        group.create_task(link.run())


def _reporter(
    config: AgentConfig,
    identity: Identity,
    folders: Mapping[str, Path],
    gpus: GpuProbe,
    root: Path,
    *,
    changed: Callable[[], None] | None = None,
    weights: Callable[[], tuple[Holding, ...] | None] = lambda: None,
    uses: Callable[[], Awaitable[tuple[ShardUse, ...] | None]] | None = None,
) -> Reporter:
    engine_probe = EngineProbe(
        config.engines, launcher=packaged(LAUNCHER), known=KNOWN, own=own_environment()
    )
    disks = Disks(folders, root=root)
    return Reporter(
        identity, disks, engine_probe, gpus, root=root, changed=changed, weights=weights, uses=uses
    )


def _folders(config: AgentConfig, state_dir: StateDir) -> dict[str, Path]:
    """Name the folders whose filesystems count, by what they hold."""
    beside = {f"weights in {folder}": Path(folder) for folder in config.weights.also_look_in}
    return {"state": state_dir.path, "weights": _cache_folder(config, state_dir), **beside}


def _cache_folder(config: AgentConfig, state_dir: StateDir) -> Path:
    return Path(config.weights.cache) if config.weights.cache else state_dir.path / "weights"


def _weights(
    config: AgentConfig,
    state_dir: StateDir,
    clock: Clock,
    timings: Timings,
    *,
    ended: Callable[[], None],
    recording: Callable[[str], contextlib.AbstractContextManager[object]] = contextlib.nullcontext,
) -> Weights:
    said = config.weights
    web = Web(hub=said.hub, token=hub_token(os.environ, said.token_file), silent_s=timings.silent_fetch_s / 5)
    cache = WeightsCache(_cache_folder(config, state_dir))
    fetcher = Fetcher(
        cache,
        web,
        clock,
        silent_s=timings.silent_fetch_s,
        retry_s=timings.retry_fetch_s,
        ended=ended,
        recording=recording,
    )
    return Weights(cache, fetcher, tuple(Path(folder) for folder in said.also_look_in))


def _sessions(supervisor: Supervisor) -> set[int]:
    """List the sessions of the engines that run; each engine leads its own."""
    return {state.pid for state in supervisor.shards() if state.pid is not None}


def _servers(config: AgentConfig) -> tuple[Server, ...]:
    servers = tuple(Server(*split_address(address)) for address in config.server)
    foreign = [str(server) for server in servers if not server.is_loopback]
    if foreign and not config.insecure_plaintext:
        raise BadInput(
            f"server {foreign[0]} is another machine, and this version has no certificates yet: nothing would be "
            "encrypted on the way and anybody could answer; on a network you trust, write "
            "insecure_plaintext: true in agent.yaml and under listen in server.yaml"
        )
    return servers


def _identity(config: AgentConfig) -> Identity:
    node = config.node or socket.gethostname()
    if problem := name_problem("node", node):
        raise BadInput(f"{problem}; write `node` in agent.yaml or give --node")
    return Identity(
        node=node, address=config.address, pool=config.pool, labels=config.labels, fabrics=config.fabrics
    )


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line says: which file, what goes over it, and where this machine's /proc and /sys are."""

    path: str | None
    given: dict[str, object]
    root: Path

    def config(self) -> AgentConfig:
        """Read the configuration.

        Raises:
            BadInput: it cannot be read, or says what cannot be.
        """
        return _configured(self.path, self.given)


_CONFIG = click.option(
    "--config", "path", metavar="FILE", help=f"Configuration file; {DEFAULT_PATH} when not given."
)


@click.group("agent", invoke_without_command=True)
@_CONFIG
@click.option(
    "--server", "server", metavar="HOST:PORT", multiple=True, help="Where the server listens for agents."
)
@click.option("--state-dir", metavar="DIR", help="The folder of records and of the engines' output.")
@click.option("--node", metavar="NAME", help="What this node is called; its host name when not given.")
@click.option("--root", metavar="DIR", default="/", hidden=True, help="Where /proc and /sys are.")
@click.pass_context
def command(
    context: click.Context,
    path: str | None,
    server: tuple[str, ...],
    state_dir: str | None,
    node: str | None,
    root: str,
) -> None:
    """Run the agent of this node; SIGTERM ends it and leaves its engines serving."""
    given = {"server": server or None, "state_dir": state_dir, "node": node}
    told = Told(path=path, given={k: v for k, v in given.items() if v is not None}, root=Path(root))
    context.obj = told
    if context.invoked_subcommand is None:
        set_up()
        with _told_of_errors():
            asyncio.run(_until_signalled(told.config(), told.root))


@command.command()
@_CONFIG
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON, as it would go to the server.")
@click.option("--root", metavar="DIR", default=None, hidden=True, help="Where /proc and /sys are.")
@click.pass_obj
def inspect(told: Told, path: str | None, as_json: bool, root: str | None) -> None:
    """Print what this node would report of itself.

    No server is asked, and nothing is started but the engines, for their version.
    """
    told = msgspec.structs.replace(told, path=path or told.path, root=Path(root) if root else told.root)
    with _told_of_errors():
        said = asyncio.run(_inspected(told.config(), told.root))
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(said), indent=2))
    else:
        click.echo(describe(said))


async def _inspected(config: AgentConfig, root: Path) -> Introduction:
    """Look at all that a Register says, but for the shards, which only the running agent knows."""
    state_dir = StateDir(config.state_dir)
    identity = _identity(config)
    # Engines of ours are known by their mark; this process leads no session of theirs.
    gpus = GpuProbe(state_dir.path, set, root=root)
    folders = {name: nearest(folder) for name, folder in _folders(config, state_dir).items()}
    weights = _weights(config, state_dir, SystemClock(), Timings(), ended=lambda: None)
    stock = Stock(weights, shards=lambda: (), say=lambda frame: None, root=root)
    reporter = _reporter(config, identity, folders, gpus, root, weights=stock.holdings)
    await reporter.probe_engines()
    await stock.look()
    for server in _servers(config):
        with contextlib.suppress(OSError, TimeoutError):
            return await reporter.introduction(server)
    raise BadInput(
        f"no route leads to the server {', '.join(config.server)}, so this node's own address is not known; "
        "correct `server`, or write `address`, in agent.yaml"
    )


@contextlib.contextmanager
def _told_of_errors() -> Iterator[None]:
    """Say what stands in the way, and end with status 1."""
    try:
        yield
    except LlmgwError as error:
        click.echo(f"llmgw agent: {error}", err=True)
        sys.exit(1)


def _configured(path: str | None, given: dict[str, object]) -> AgentConfig:
    """Read the file and put what the command line gave over it."""
    config = load(Path(path or DEFAULT_PATH), AgentConfig, may_be_missing=path is None)
    if not given:
        return config
    changed, problems = AgentConfig.read(msgspec.to_builtins(config) | given)
    if changed is None:
        raise BadInput("; ".join(str(problem) for problem in problems), problems)
    return changed


async def _until_signalled(config: AgentConfig, root: Path) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await run_agent(config, stop=stop, stop_engines=False, root=root)
