"""`ctl apply`: make a catalog file what is wanted; problems are shown with their lines, whoever found them."""

import sys
from typing import Any

import click

from llmgw.core.errors import BadInput, Problem
from llmgw.core.fleet.catalog import read_catalog
from llmgw.ctl.failure import BadFile, Refused, Unreadable
from llmgw.ctl.render import plain
from llmgw.ctl.session import Session, json_option, pass_session
from llmgw.ctl.stale import stale_lines

STDIN = "-"


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
    document = _read(reading, path)
    _, problems = read_catalog(document.data)
    # A fallback may name a model that is stored already, and only the server knows those.
    problems = [problem for problem in problems if "fallback" not in problem.path]
    if problems:
        raise _refused(reading, document, problems)
    body = {"catalog": document.data, "dry_run": dry_run, "prune": prune}
    try:
        client = session.client()
        change = client.post("apply", body=body)
    except Refused as refused:
        if not refused.problems:
            raise
        problems = [Problem(tuple(one["path"]), one["message"]) for one in refused.problems]
        raise _refused(reading, document, problems) from refused
    # Unchanged ones too: that an earlier change has not reached their replicas is as true now.
    named = (*change["changed"], *change["unchanged"])
    stale = [] if dry_run or session.as_json or not named else stale_lines(client.get("replicas"), named)
    session.print(change, "\n".join([_text(change, document.name), *stale]))
    if dry_run:
        click.echo("dry run: nothing was changed", err=True)


def _read(reading: Any, path: str) -> Any:
    try:
        if path == STDIN:
            document = reading.parse_yaml(sys.stdin.buffer.read(), "standard input")
        else:
            document = reading.read_yaml(path)
    except BadInput as error:
        raise Unreadable(str(error)) from error
    if "models" not in document.data:
        raise Unreadable(
            f"{document.name}:1: 'models' is missing; an empty catalog is written as 'models: []'"
        )
    return document


def _refused(reading: Any, document: Any, problems: list[Problem]) -> BadFile:
    count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    text = f"{reading.problems_text(document, problems)}\n{document.name}: {count}; nothing was changed"
    found = [{"path": list(problem.path), "message": problem.message} for problem in problems]
    return BadFile(
        text, {"error": {"code": "bad_input", "message": f"the catalog has {count}", "problems": found}}
    )


def _text(change: dict[str, Any], name: str) -> str:
    lines = [
        f"{word} {plain(model)}"
        for word in ("created", "changed", "unchanged", "removed")
        for model in change[word]
    ]
    lines += [f"kept {plain(model)} (not in {name}; --prune would remove it)" for model in change["kept"]]
    return "\n".join(lines) or "the catalog is empty, and so it was"
