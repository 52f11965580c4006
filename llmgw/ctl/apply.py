"""`ctl apply`: make a catalog file what is wanted; problems are shown with their lines, whoever found them."""

from typing import Any

import click

from llmgw.ctl.catalog_file import read_file, shown_in
from llmgw.ctl.render import plain
from llmgw.ctl.session import Session, json_option, pass_session
from llmgw.ctl.stale import stale_lines


@click.command()
@click.option(
    "-f", "--file", "path", required=True, metavar="FILE", help="The catalog; - reads standard input."
)
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
@click.option("--prune", is_flag=True, help="Remove models that the file does not name.")
@json_option
@pass_session
def apply(session: Session, path: str, dry_run: bool, prune: bool) -> None:
    """Make a catalog file what is wanted; models that it does not name stay, unless --prune is given."""
    reading = session.reading()
    document = read_file(reading, path)
    body = {"catalog": document.data, "dry_run": dry_run, "prune": prune}
    client = session.client()
    with shown_in(reading, document):
        change = client.post("apply", body=body)
    # Unchanged ones too: that an earlier change has not reached their replicas is as true now.
    named = (*change["changed"], *change["unchanged"])
    stale = [] if dry_run or session.as_json or not named else stale_lines(client.get("replicas"), named)
    session.print(change, "\n".join([_text(change, document.name), *stale]))
    if dry_run:
        click.echo("dry run: nothing was changed", err=True)


def _text(change: dict[str, Any], name: str) -> str:
    lines = [
        f"{word} {plain(model)}"
        for word in ("created", "changed", "unchanged", "removed")
        for model in change[word]
    ]
    lines += [f"kept {plain(model)} (not in {name}; --prune would remove it)" for model in change["kept"]]
    return "\n".join(lines) or "the catalog is empty, and so it was"
