"""Find the server: by what was given, or by what a server on this machine wrote down.

The order: 1. `--server`; 2. LLMGW_SERVER; 3. a server started in this folder by `llmgw up`; 4. the server of this
machine's configuration; 5. the default address. An error says which of them it was.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import click

DEFAULT = "127.0.0.1:8081"
LISTENING = "listening.json"
HERE = Path(".llmgw")


class Configured(NamedTuple):
    """What this machine's server.yaml says."""

    path: str
    data_dir: str
    admin: str


class Server(NamedTuple):
    """Where the admin API is.

    Attributes:
        source: where the address came from, in words.
    """

    host: str
    port: int
    tls: bool
    source: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https://' if self.tls else ''}{host}:{self.port}"


def find_server(
    given: str | None, given_by: str, here: Path, configured: Callable[[], Configured | None]
) -> Server:
    """Find the server.

    Args:
        given: an address that a person named, or None.
        given_by: how they named it: "--server" or "LLMGW_SERVER".
        here: the folder that `llmgw up` keeps its state in.
        configured: reads this machine's server.yaml; called only when nothing nearer is known.

    Raises:
        click.UsageError: the address that was given is none.
    """
    if given:
        return _parsed(given, f"from {given_by}")
    if (admin := _listening(here)) is not None:
        return _parsed(admin, f"from {here / LISTENING}")
    if (config := configured()) is not None:
        folder = Path(config.data_dir)
        if (admin := _listening(folder)) is not None:
            return _parsed(admin, f"from {folder / LISTENING}")
        return _parsed(config.admin, f"from {config.path}")
    return _parsed(DEFAULT, "the default")


def _parsed(text: str, source: str) -> Server:
    try:
        url = urlsplit(text if "://" in text else f"//{text}", scheme="http")
        host, port = url.hostname, url.port
    except ValueError:
        host = port = None
        url = urlsplit("")
    if not host or url.scheme not in ("http", "https"):
        raise click.UsageError(
            f"wanted the server as host:port or http://host:port, found {text!r} ({source})"
        )
    tls = url.scheme == "https"
    return Server(host, port or (443 if tls else 8081), tls, source)


def _listening(folder: Path) -> str | None:
    """Read the admin address that a running server wrote down, if it did and we may read it."""
    try:
        admin = json.loads((folder / LISTENING).read_bytes())["admin"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return admin if isinstance(admin, str) else None
