"""`ctl models`: models of the catalog and how they fare, and rolling them."""

from typing import Any

import click

from llmgw.ctl.listing import Listing, list_unless_told
from llmgw.ctl.render import listed, plain
from llmgw.ctl.session import Session, json_option, pass_session


@click.group(cls=Listing)
@json_option
@click.pass_context
def models(context: click.Context) -> None:
    """List models, or roll one."""
    list_unless_told(context)


@models.command("list")
@json_option
@pass_session
def list_models(session: Session) -> None:
    """List models: wanted, ready, why not."""
    found = session.client().get("models")
    if not found:
        text = "the catalog is empty; fill it with 'llmgw ctl apply -f catalog.yaml'"
    else:
        header = ["MODEL", "READY", "ALIASES", "PROFILES", "WHY NOT"]
        text = session.table(header, [_row(model) for model in found])
        rolls = [_roll(model["roll"]) for model in found if model["roll"] is not None]
        text += "\n\n" + listed("rolls", rolls) if rolls else ""
    session.print(found, text)


@models.command()
@click.argument("name")
@click.option("--all", "every", is_flag=True, help="Replace every replica, not only those that are stale.")
@json_option
@pass_session
def roll(session: Session, name: str, every: bool) -> None:
    """Replace the stale replicas of the model called NAME one by one, a new one ready before an old one ends."""
    begun = session.client().post("models", name, "roll", body={"all": every})
    if begun["total"]:
        text = f"{_roll(begun)}; 'llmgw ctl models' shows how far it is"
    else:
        text = f"no replica of {plain(name)} is to be replaced: {begun['why']}"
    session.print(begun, text)


def _roll(roll: dict[str, Any]) -> str:
    text = f"{roll['model']}: {roll['state']}, {roll['replaced']} of {roll['total']} replicas replaced"
    return f"{text}; {roll['why']}" if roll["why"] else text


def _row(model: dict[str, Any]) -> list[Any]:
    return [
        model["name"],
        f"{model['ready']} of {model['wanted']}",
        model["aliases"],
        [f"{profile['name']} ({profile['engine']})" for profile in model["profiles"]],
        model["why_not"],
    ]
