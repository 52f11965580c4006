"""`ctl models`: models of the catalog and how they fare."""

from typing import Any

import click

from llmgw.ctl.session import Session, json_option, pass_session


@click.command()
@json_option
@pass_session
def models(session: Session) -> None:
    """List models: wanted, ready, why not."""
    found = session.client().get("models")
    if not found:
        text = "the catalog is empty; fill it with 'llmgw ctl apply -f catalog.yaml'"
    else:
        header = ["MODEL", "READY", "ALIASES", "PROFILES", "WHY NOT"]
        text = session.table(header, [_row(model) for model in found])
    session.print(found, text)


def _row(model: dict[str, Any]) -> list[Any]:
    return [
        model["name"],
        f"{model['ready']} of {model['wanted']}",
        model["aliases"],
        [f"{profile['name']} ({profile['engine']})" for profile in model["profiles"]],
        model["why_not"],
    ]
