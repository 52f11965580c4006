"""`ctl keys`: create, list and revoke API keys."""

from difflib import get_close_matches
from typing import Any

import click

from llmgw.core.units import parse_time
from llmgw.ctl.failure import Failed
from llmgw.ctl.render import moment, plain
from llmgw.ctl.session import Session, json_option, pass_session


@click.group()
def keys() -> None:
    """Create, list and revoke API keys."""


@keys.command()
@click.argument("name")
@click.option("--scope", type=click.Choice(["inference", "admin"]), default="inference", show_default=True)
@click.option(
    "--model", "models", multiple=True, metavar="MODEL", help="Allow this model only; may come again."
)
@click.option(
    "--expires", metavar="TIME", help="Expire after this time, such as 90d or 12h; never without it."
)
@json_option
@pass_session
def create(session: Session, name: str, scope: str, models: tuple[str, ...], expires: str | None) -> None:
    """Create a key called NAME. The key alone goes to standard output, what it is to standard error."""
    body = {"name": name, "scope": scope, "models": list(models) or None, "expires_in_s": _seconds(expires)}
    client = session.client()
    if models:
        _check_known(models, client.get("models"))
    made = client.post("keys", body=body)
    session.print(made, made["key"])
    until = "does not expire" if made["expires_at"] is None else f"expires {moment(made['expires_at'])} UTC"
    click.echo(
        f"key {made['id']} {plain(made['name'])!r} for {made['scope']}, {_models(made)}, {until}; "
        "it is not shown again",
        err=True,
    )


@keys.command("list")
@json_option
@pass_session
def list_keys(session: Session) -> None:
    """List the keys, revoked and expired ones too."""
    found = session.client().get("keys")
    if not found:
        text = "no key; make one with 'llmgw ctl keys create NAME'"
    else:
        header = ["ID", "NAME", "KEY", "SCOPE", "STATE", "CREATED", "EXPIRES", "MODELS"]
        text = session.table(header, [_row(key) for key in found])
    session.print(found, text)


@keys.command()
@click.argument("id", type=int)
@json_option
@pass_session
def revoke(session: Session, id: int) -> None:
    """Take the key with this ID back, at once and for good."""
    found = session.client().post("keys", str(id), "revoke")
    session.print(found, f"revoked key {found['id']} {plain(found['name'])!r}")


def _check_known(models: tuple[str, ...], found: list[dict[str, Any]]) -> None:
    known = [name for model in found for name in (model["name"], *model["aliases"])]
    unknown = [name for name in models if name not in known]
    if unknown:
        said = "; ".join(f"no model is called {name!r}, {_nearest(name, known)}" for name in unknown)
        raise Failed(f"the key was not made: {said}")


def _nearest(name: str, known: list[str]) -> str:
    close = get_close_matches(name, known, 1)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(sorted(known)) or 'none'}"


def _seconds(expires: str | None) -> float | None:
    if expires is None:
        return None
    seconds = parse_time(expires)
    if seconds is None or seconds <= 0:
        raise click.UsageError(f"wanted --expires as a time such as 90d or 12h, found {expires!r}")
    return seconds


def _row(key: dict[str, Any]) -> list[Any]:
    return [
        key["id"],
        key["name"],
        f"{key['prefix']}…",
        key["scope"],
        key["state"],
        moment(key["created_at"]),
        moment(key["expires_at"]),
        _models(key),
    ]


def _models(key: dict[str, Any]) -> str:
    if key["models"] is None:
        return "all models"
    return ", ".join(plain(model) for model in key["models"]) or "no model"
