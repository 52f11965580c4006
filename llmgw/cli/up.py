"""`llmgw up`: server and agent in one process, for a first try and for one machine.

One folder holds everything: `server.yaml`, `agent.yaml` and `catalog.yaml` where somebody wrote them, the database, the
agent's state below `agent/`, and the first API key in `api-key`, readable by its owner alone. The catalog is applied at
each start. Ctrl-C stops the engines, then the agent, then the server; a second one gives up waiting.
"""

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec
import uvloop

from llmgw.agent.main import run_agent
from llmgw.cli.greeting import greeting, refused
from llmgw.cli.progress import Progress
from llmgw.config.agent import AgentConfig
from llmgw.config.load import load
from llmgw.config.server import ServerConfig
from llmgw.core.errors import LlmgwError
from llmgw.ctl.address import Server
from llmgw.ctl.client import Client
from llmgw.ctl.failure import Failed, Refused
from llmgw.runtime.clock import SystemClock
from llmgw.runtime.descriptors import raise_limit
from llmgw.runtime.journal import set_up
from llmgw.server.main import Listening, run_server

KEY_FILE = "api-key"
KEY_NAME = "first key, made by llmgw up"
LOOK_EVERY_S = 0.5

C = TypeVar("C", ServerConfig, AgentConfig)


@click.command("up")
@click.option(
    "--data-dir",
    metavar="DIR",
    default=".llmgw",
    show_default=True,
    help="The folder of everything: configuration, catalog, database, engines' output.",
)
@click.option("--verbose", is_flag=True, help="Show the log of server and agent on standard error.")
def command(data_dir: str, verbose: bool) -> None:
    """Run server and agent together on this machine; Ctrl-C stops both and their engines."""
    folder = Path(data_dir).absolute()
    listen: dict[str, str] = {}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _set_up_log(verbose)
        server, agent = _configured(folder)
        listen = {name: str(getattr(server.listen, name)) for name in ("client", "admin", "agents")}
        uvloop.run(_Up(folder, server, agent).run())
    except OSError as error:
        _fail(f"{folder} cannot be used: {error.strerror}; name another folder with --data-dir")
    except LlmgwError as error:
        _fail(refused(error, folder, listen))
    except BaseExceptionGroup as group:
        errors, others = group.split(LlmgwError)
        if errors is None or others is not None:
            raise
        _fail("; ".join(refused(error, folder, listen) for error in _leaves(errors)))


class _Up:
    """One run: starts server, then agent; ends them the other way round."""

    def __init__(self, folder: Path, server: ServerConfig, agent: AgentConfig) -> None:
        self._folder = folder
        self._server = server
        self._agent = agent
        self._clock = SystemClock()
        self._stop_server = asyncio.Event()
        self._stop_agent = asyncio.Event()

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        listening: asyncio.Future[Listening] = loop.create_future()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._signalled)
        async with asyncio.TaskGroup() as group:
            serving = group.create_task(
                run_server(self._server, stop=self._stop_server, on_listening=listening.set_result)
            )
            both: set[asyncio.Future[Any]] = {serving, listening}
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            # A server that could not listen has failed its task, and the group tells why.
            if listening.done():
                await self._beside_server(listening.result())

    async def _beside_server(self, listening: Listening) -> None:
        agent = msgspec.structs.replace(self._agent, server=(listening.agents,))
        client = Client(Server(*_split(listening.admin), False, "this process"))
        try:
            async with asyncio.TaskGroup() as group:
                telling = group.create_task(self._tell(client, listening))
                await run_agent(agent, stop=self._stop_agent, stop_engines=True)
                telling.cancel()
        finally:
            self._stop_server.set()

    def _signalled(self) -> None:
        if self._stop_agent.is_set():
            _say("stopping at once")
            # The engines were told to stop already; what is left of them is found and stopped at the next start.
            os._exit(130)
        _say("stopping the engines, then the server (Ctrl-C again to give up waiting)")
        self._stop_agent.set()

    async def _tell(self, client: Client, listening: Listening) -> None:
        """Say what a newcomer needs: the URL, a key, a line to try, and how the models come up."""
        key = await asyncio.to_thread(_key, client, self._folder / KEY_FILE)
        models = await _asked(client, "models") or ()
        status = await _asked(client, "status") or {"problems": ()}
        catalog = str(self._folder / "catalog.yaml")
        problems = [problem for problem in status["problems"] if problem.startswith(catalog)]
        names = [model["name"] for model in models]
        _say(greeting(listening.client, key, self._folder, names, problems, admin=listening.admin))
        progress = Progress()
        began = self._clock.now()
        while True:
            # Until our own agent has registered, that no node is there is no news.
            registered = await _asked(client, "nodes")
            replicas = await _asked(client, "replicas") or ()
            for model in (await _asked(client, "models") or ()) if registered else ():
                if line := progress.news(model, replicas, self._clock.now() - began):
                    _say(line)
            await asyncio.sleep(LOOK_EVERY_S)


def _set_up_log(verbose: bool) -> None:
    # What the agent did is asked for with `ctl logs`, and what a download said too, however quiet the terminal is.
    set_up("INFO" if verbose else "WARNING", also_made="llmgw.agent")
    raise_limit()
    if not verbose:
        # That no node is there yet, or none any more, is how a start and an end of both in one process look.
        logging.getLogger("llmgw.control").setLevel("ERROR")


def _configured(folder: Path) -> tuple[ServerConfig, AgentConfig]:
    """Read what was written into the folder; what was not is kept in the folder, not where a service keeps it."""
    server = load(folder / "server.yaml", ServerConfig, may_be_missing=True)
    agent = load(folder / "agent.yaml", AgentConfig, may_be_missing=True)
    server = _moved(server, ServerConfig(), data_dir=str(folder))
    if (folder / "catalog.yaml").exists():
        server = _moved(server, ServerConfig(), catalog=str(folder / "catalog.yaml"))
    return server, _moved(agent, AgentConfig(), state_dir=str(folder / "agent"))


def _moved(config: C, default: C, **places: str) -> C:
    wanted = {key: place for key, place in places.items() if getattr(config, key) == getattr(default, key)}
    return msgspec.structs.replace(config, **wanted)


def _key(client: Client, path: Path) -> str | None:
    """Give the key that was made at the first start, making it if no key was ever made; None when it is not kept."""
    keys = client.get("keys")
    with contextlib.suppress(FileNotFoundError):
        key = path.read_text().strip()
        if any(key.startswith(row["prefix"]) and not row.get("revoked_at") for row in keys):
            return key
    if keys:
        return None
    made: str = client.post("keys", body={"name": KEY_NAME})["key"]
    temporary = path.with_suffix(".new")
    with os.fdopen(os.open(temporary, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w") as file:
        file.write(made + "\n")
    temporary.replace(path)
    return made


async def _asked(client: Client, what: str) -> Any:
    """Ask our own server; None when it is ending."""
    with contextlib.suppress(Failed, Refused):
        return await asyncio.to_thread(client.get, what)
    return None


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def _leaves(group: BaseExceptionGroup[LlmgwError]) -> list[LlmgwError]:
    found: list[LlmgwError] = []
    for error in group.exceptions:
        found += _leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return found


def _say(text: str) -> None:
    click.echo(text)
    sys.stdout.flush()


def _fail(message: str) -> Callable[[], None]:
    click.echo(f"llmgw up: {message}", err=True)
    sys.exit(1)
