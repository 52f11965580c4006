"""`ctl explain`: where a model stands, node by node."""

from typing import Any

import click

from llmgw.ctl.render import listed, plain
from llmgw.ctl.session import Session, json_option, pass_session
from llmgw.ctl.stale import stale_lines


@click.command()
@click.argument("model")
@json_option
@pass_session
def explain(session: Session, model: str) -> None:
    """Say where MODEL stands: its replicas, what is missing and why, and what each node would answer."""
    if not model.strip():
        raise click.UsageError(
            "name a model, as in 'llmgw ctl explain gemma-270m'; 'llmgw ctl models' lists them"
        )
    client = session.client()
    found = client.get("explain-placement", model=model)
    stale = [] if session.as_json else stale_lines(client.get("replicas"), (found["model"],))
    session.print(found, "\n".join([_text(session, found), *stale]))


def _text(session: Session, found: dict[str, Any]) -> str:
    sections = [f"{plain(found['model'])}: {found['ready']} of {found['wanted']} ready"]
    if found["why_not"]:
        sections.append(f"not served: {plain(found['why_not'])}")
    if found["replicas"]:
        lines = [f"{one['replica']} on {one['node']}: {one['text']}" for one in found["replicas"]]
        sections.append(listed("replicas", lines))
    if found["nodes"]:
        rows = [[one["node"], one["profile"], _answer(one)] for one in found["nodes"]]
        table = session.table(["NODE", "PROFILE", "ANSWER"], rows)
        sections.append(f"one more replica now, node by node:\n{table}")
    return "\n".join(sections)


def _answer(one: dict[str, Any]) -> str:
    if one["fits"]:
        return "fits"
    said = one["verdict"]
    return f"{said['rule']}: needs {said['needed']}, has {said['had']}; would fit if {said['would_fit_if']}"
