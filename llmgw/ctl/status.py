"""`ctl status`: the whole at a glance."""

from typing import Any

import click

from llmgw.core.units import show_bytes
from llmgw.ctl.render import age, counts, facts, listed
from llmgw.ctl.session import Session, json_option, pass_session
from llmgw.ctl.stale import stale_lines

SHOWN_NODES = 5
"""Of each fabric; `--json` names all."""
SHOWN_WEIGHTS = 5


@click.command()
@json_option
@pass_session
def status(session: Session) -> None:
    """Show the whole at a glance, and what needs somebody."""
    client = session.client()
    found = client.get("status")
    stale = [] if session.as_json else stale_lines(client.get("replicas"))
    session.print(found, "\n".join([_text(found, str(client.server)), *stale]))


def _text(found: dict[str, Any], address: str) -> str:
    pairs: list[tuple[str, object]] = [
        (
            "server",
            f"{address}, version {found['version']}, up for {age(found['up_s'])} (start {found['epoch']})",
        ),
        ("nodes", counts(found["nodes"])),
        ("models", f"{found['models']}, {found['served']} of them served"),
        ("replicas", f"{found['ready']} of {found['wanted']} ready; all: {counts(found['replicas'])}"),
    ]
    for fabric in found.get("fabrics", ()):
        pairs.append(("fabric", _fabric(fabric)))
        if fabric.get("weights"):
            pairs.append(("", _held(fabric)))
    if found.get("alarm"):
        alarm = found["alarm"]
        silent = f"{len(alarm['nodes'])} of {alarm['fleet']} nodes silent"
        pairs.append(("alarm", f"{silent} for {age(alarm['since_s'])}: {', '.join(alarm['nodes'])}"))
    if found.get("hold"):
        pairs.append(("placing", f"held: {found['hold']}"))
    text = facts(pairs)
    if found["problems"]:
        text += "\n" + listed("problems", found["problems"])
    return text


def _fabric(fabric: dict[str, Any]) -> str:
    attached, detached = fabric["attached"], fabric["detached"]
    text = f"{fabric['name']}: {len(attached)} attached{_named(attached)}"
    return f"{text}, {len(detached)} not{_named(detached)}" if detached else text


def _held(fabric: dict[str, Any]) -> str:
    held = [f"{one['name']} ({show_bytes(one['size_bytes'])}{_copies(one)})" for one in fabric["weights"]]
    more = f" and {len(held) - SHOWN_WEIGHTS} more" if len(held) > SHOWN_WEIGHTS else ""
    return f"holds {', '.join(held[:SHOWN_WEIGHTS])}{more}"


def _named(nodes: list[str]) -> str:
    more = f" and {len(nodes) - SHOWN_NODES} more" if len(nodes) > SHOWN_NODES else ""
    return f" ({', '.join(nodes[:SHOWN_NODES])}{more})" if nodes else ""


def _copies(one: dict[str, Any]) -> str:
    return f", {one['copies']} copies" if one["copies"] > 1 else ""
