"""`ctl explain`: where a model stands, node by node, in the catalog as it is or in one that is not applied."""

from typing import Any

import click

from llmgw.core.placement.measured import UNKNOWN_MEMORY, learned_words
from llmgw.core.units import show_bytes
from llmgw.ctl.catalog_file import read_file, shown_in
from llmgw.ctl.render import listed, plain
from llmgw.ctl.session import Session, json_option, pass_session
from llmgw.ctl.stale import stale_lines


@click.command()
@click.argument("model")
@click.option(
    "-f", "--file", "path", metavar="FILE", help="With --dry-run: a catalog; - reads standard input."
)
@click.option(
    "--dry-run", is_flag=True, help="Explain as if the catalog FILE were applied; nothing is changed."
)
@json_option
@pass_session
def explain(session: Session, model: str, path: str | None, dry_run: bool) -> None:
    """Say where MODEL stands: its replicas, what is missing and why, and what each node would answer."""
    if not model.strip():
        raise click.UsageError(
            "name a model, as in 'llmgw ctl explain gemma-270m'; 'llmgw ctl models' lists them"
        )
    if dry_run is not (path is not None):
        raise click.UsageError(
            "--dry-run and -f go together: 'llmgw ctl explain MODEL --dry-run -f catalog.yaml' judges a catalog "
            "that is not applied"
        )
    found = _ask(session, model) if path is None else _ask_about(session, model, path)
    stale = []
    if path is None and not session.as_json:
        stale = stale_lines(session.client().get("replicas"), (found["model"],))
    session.print(found, "\n".join([_text(session, found), *stale]))


def _ask(session: Session, model: str) -> Any:
    return session.client().get("explain-placement", model=model)


def _ask_about(session: Session, model: str, path: str) -> Any:
    reading = session.reading()
    document = read_file(reading, path)
    client = session.client()
    with shown_in(reading, document):
        return client.post("explain-placement", body={"model": model, "catalog": document.data})


def _text(session: Session, found: dict[str, Any]) -> str:
    sections = [f"{plain(found['model'])}: {found['ready']} of {found['wanted']} ready"]
    if found["why_not"]:
        sections.append(f"not served: {plain(found['why_not'])}")
    if found["replicas"]:
        lines = [f"{one['replica']} on {one['node']}: {one['text']}" for one in found["replicas"]]
        sections.append(listed("replicas", lines))
    needs = [f"{one['profile']}: {_needs(one)}" for one in found["needs"]]
    if needs:
        sections.append(listed("needs", needs))
    if found["nodes"]:
        rows = [[one["node"], one["profile"], _answer(one)] for one in found["nodes"]]
        table = session.table(["NODE", "PROFILE", "ANSWER"], rows)
        sections.append(f"one more replica now {_next(found['next'])}; node by node:\n{table}")
    return "\n".join(sections)


def _needs(one: dict[str, Any]) -> str:
    """Say what a profile asks of each of its nodes; main memory that nobody knows is asked for of none."""
    parts = [UNKNOWN_MEMORY]
    if one["memory_bytes"] is not None:
        parts = [f"{show_bytes(one['memory_bytes'])} of memory ({_whence(one)})"]
    if one["gpus"]:
        parts.append(_gpus(one))
    if one["disk_bytes"]:
        parts.append(f"{show_bytes(one['disk_bytes'])} of disk where the weights are not yet")
    if one["nodes"] > 1:
        parts.append(f"{one['nodes']} nodes" + (f" on fabric {one['fabric']}" if one["fabric"] else ""))
    elif one["fabric"]:
        parts.append(f"fabric {one['fabric']}")
    return ", ".join(parts)


def _whence(one: dict[str, Any]) -> str:
    return learned_words(
        one["memory_said"],
        estimated_bytes=one["estimated_bytes"],
        measured_bytes=one["measured_bytes"],
        spare_bytes=one.get("spare_bytes", 0),
    )


def _gpus(one: dict[str, Any]) -> str:
    text = f"{one['gpus']} GPU{'s' if one['gpus'] > 1 else ''}"
    if one["gpu_class"]:
        text += f" of class {one['gpu_class']}"
    each = [show_bytes(one["gpu_bytes"])] if one["gpu_bytes"] is not None else []
    each += [f"{one['gpu_share']:.0%} of the memory"] if one["gpu_share"] is not None else []
    return f"{text} with {' and '.join(each)} free" if each else f"{text} whole"


def _next(found: dict[str, Any] | None) -> str:
    if found is None:
        return "fits nowhere"
    return f"would go to {', '.join(found['nodes'])} as {found['profile']}, {found['because']}"


def _answer(one: dict[str, Any]) -> str:
    if one["fits"]:
        return "fits"
    said = one["verdict"]
    return f"{said['rule']}: needs {said['needed']}, has {said['had']}; would fit if {said['would_fit_if']}"
