"""What all verbs share: where the server is, whether they speak JSON, and how they print."""

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from llmgw.ctl.address import HERE, Configured, find_server
from llmgw.ctl.client import Client
from llmgw.ctl.render import table

F = TypeVar("F", bound=Callable[..., Any])


class Session:
    """One call of ctl.

    Attributes:
        as_json: print the API's JSON instead of tables.
        reading: the module that reads YAML documents (llmgw.config.load), imported when it is first asked for.
    """

    def __init__(
        self,
        *,
        server: str | None,
        server_by: str,
        key: str | None,
        as_json: bool,
        reading: Callable[[], Any],
        configured: Callable[[], Configured | None],
        here: Path = HERE,
    ) -> None:
        self.as_json = as_json
        self.reading = reading
        self._server = server
        self._server_by = server_by
        self._key = key
        self._configured = configured
        self._here = here

    def client(self) -> Client:
        """Find the server and make a client of it."""
        return Client(find_server(self._server, self._server_by, self._here, self._configured), self._key)

    def print(self, data: Any, text: str) -> None:
        """Print `data` as JSON where that was asked for, and else `text`."""
        click.echo(json.dumps(data, ensure_ascii=False, indent=2) if self.as_json else text)

    def table(self, header: list[str], rows: list[list[Any]]) -> str:
        """Lay out a table for where it is printed: wrapped and tinted on a terminal only."""
        terminal = sys.stdout.isatty()
        width = shutil.get_terminal_size().columns if terminal else None
        return table(header, rows, width=width, color=terminal and "NO_COLOR" not in os.environ)


pass_session = click.make_pass_decorator(Session)


def json_option(function: F) -> F:
    """Let a verb take --json behind its name too."""
    option = click.option(
        "--json",
        is_flag=True,
        expose_value=False,
        callback=_remember_json,
        help="Print the API's JSON, for programs.",
    )
    return option(function)


def _remember_json(context: click.Context, _option: click.Parameter, value: bool) -> None:
    session = context.find_object(Session)
    if value and session is not None:
        session.as_json = True
