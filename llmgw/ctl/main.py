"""`llmgw ctl`: asks or tells a running server, one module a verb group, imported when it is asked for."""

import json
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from llmgw.ctl.address import Configured
from llmgw.ctl.failure import Refused
from llmgw.ctl.session import Session

SERVER_YAML = "/etc/llmgw/server.yaml"
"""The server's configuration on this machine; llmgw.config.server has the same path as its default."""


class Verb(NamedTuple):
    """Where a verb is found (`module:name`), and what it does in a few words."""

    target: str
    summary: str


VERBS = {
    "status": Verb("llmgw.ctl.status:status", "Show the whole at a glance, and what needs somebody."),
    "nodes": Verb("llmgw.ctl.nodes:nodes", "List nodes; drain, cordon, uncordon or forget one."),
    "node": Verb("llmgw.ctl.nodes:node", "Show one node, and what happened to it."),
    "logs": Verb("llmgw.ctl.logs:logs", "Show or follow the logs of a node; no ssh needed."),
    "models": Verb("llmgw.ctl.models:models", "List models: wanted, ready, why not; roll one."),
    "replicas": Verb("llmgw.ctl.replicas:replicas", "List replicas: where, how, why not; restart one."),
    "weights": Verb("llmgw.ctl.weights:weights", "List weights that nobody wants; remove them."),
    "alarm": Verb("llmgw.ctl.alarm:alarm", "Show the alarm of silence, or clear it."),
    "explain": Verb("llmgw.ctl.explain:explain", "Say where a model stands, node by node."),
    "apply": Verb("llmgw.ctl.apply:apply", "Make a catalog file what is wanted."),
    "keys": Verb("llmgw.ctl.keys:keys", "Create, list and revoke API keys."),
    "users": Verb("llmgw.ctl.users:users", "Make, list, change and remove people who may log in."),
    "version": Verb("llmgw.ctl.version:version", "Show the versions of ctl and server."),
}


class Verbs(click.Group):
    """The verbs, each imported when it runs; help and completion come from the table."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """List the verbs in the table's order."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the verb, or return None when there is none of that name."""
        if cmd_name not in VERBS:
            return None
        module, _, name = VERBS[cmd_name].target.partition(":")
        command = getattr(import_module(module), name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the verbs into the help, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, verb.summary) for name, verb in VERBS.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Offer the verbs, without importing them, and the group's own options."""
        names = [CompletionItem(n, help=v.summary) for n, v in VERBS.items() if n.startswith(incomplete)]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]

    def invoke(self, ctx: click.Context) -> Any:
        """Run the verb; with --json, a refusal of the server is printed as JSON too."""
        try:
            return super().invoke(ctx)
        except Refused as refused:
            session = ctx.find_object(Session)
            if session is not None and session.as_json:
                click.echo(json.dumps(refused.body, ensure_ascii=False, indent=2))
            raise


@click.group(cls=Verbs, name="ctl", context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--server", metavar="HOST:PORT", envvar="LLMGW_SERVER", help="The admin API; also LLMGW_SERVER."
)
@click.option(
    "--key", metavar="KEY", envvar="LLMGW_API_KEY", help="An admin key; better set in LLMGW_API_KEY."
)
@click.option("--json", "as_json", is_flag=True, help="Print the API's JSON, for programs.")
@click.pass_context
def command(context: click.Context, server: str | None, key: str | None, as_json: bool) -> None:
    """Ask or tell a running server.

    Ends with 0 when it is done, with 1 when it was refused or failed, with 2 when the command line is wrong.
    """
    by_environment = context.get_parameter_source("server") == ParameterSource.ENVIRONMENT
    context.obj = Session(
        server=server,
        server_by="LLMGW_SERVER" if by_environment else "--server",
        key=_usable(key),
        as_json=as_json,
        reading=_reading,
        configured=configured_server,
    )


def _usable(key: str | None) -> str | None:
    """Take the white space around a key away, which files and shells leave there; None for no key."""
    key = (key or "").strip()
    if not all("!" <= c <= "~" for c in key):
        # The key is not shown: what is printed lands in logs.
        raise click.UsageError(
            "the key (LLMGW_API_KEY or --key) holds a space, a line break or a character that is not ASCII; "
            "wanted one word such as sk-llmgw-..."
        )
    return key or None


def _reading() -> Any:
    return import_module("llmgw.config.load")


def configured_server(path: str = SERVER_YAML) -> Configured | None:
    """Read where a server.yaml puts the server; None when there is none, or none that we can read."""
    # Reading YAML costs a fifth of ctl's start, and most machines that run ctl have no server.
    if not Path(path).exists():
        return None
    server = import_module("llmgw.config.server")
    errors = import_module("llmgw.core.errors")
    try:
        config = _reading().load(path, server.ServerConfig)
    except errors.BadInput:
        return None
    return Configured(path, config.data_dir, config.listen.admin)
