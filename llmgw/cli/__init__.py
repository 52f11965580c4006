"""The command line: it names every program, and imports the one that is asked for."""

from importlib import import_module
from typing import NamedTuple

import click
from click.shell_completion import CompletionItem

from llmgw import __version__


class Program(NamedTuple):
    """Where a command is found (`module:name`), and what it does in a few words."""

    target: str
    summary: str


PROGRAMS = {
    "server": Program("llmgw.server.main:command", "Run the control plane: places models, routes requests."),
    "agent": Program("llmgw.agent.main:command", "Run a node's agent: describes the node, runs its engines."),
    "up": Program("llmgw.cli.up:command", "Run server and agent together on this machine."),
    "ctl": Program("llmgw.ctl.main:command", "Ask or tell a running server."),
    "selftest": Program("llmgw.cli.selftest:command", "Check that this build is whole."),
}


class LazyGroup(click.Group):
    """A group whose commands are imported when they run: help and completion come from the table."""

    def __init__(self, programs: dict[str, Program], **settings: object) -> None:
        super().__init__(**settings)  # type: ignore[arg-type]
        self._programs = programs

    def list_commands(self, ctx: click.Context) -> list[str]:
        """List the commands in the table's order."""
        return list(self._programs)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command, or return None when there is none of that name."""
        if cmd_name not in self._programs:
            return None
        module, _, name = self._programs[cmd_name].target.partition(":")
        command = getattr(import_module(module), name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands into the help, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, program.summary) for name, program in self._programs.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Offer the commands, without importing them, and the group's own options."""
        names = [
            CompletionItem(n, help=p.summary) for n, p in self._programs.items() if n.startswith(incomplete)
        ]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]


@click.group(cls=LazyGroup, programs=PROGRAMS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="llmgw")
def cli() -> None:
    """Turn Linux machines, with or without GPUs, into one OpenAI-compatible service."""
