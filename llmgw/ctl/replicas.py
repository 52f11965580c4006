"""`ctl replicas`: engine processes of replicas, as last observed, and restarting them."""

from typing import Any

import click

from llmgw.core.units import show_bytes
from llmgw.ctl.listing import Listing, list_unless_told
from llmgw.ctl.render import UNKNOWN, age, listed, plain
from llmgw.ctl.session import Session, json_option, pass_session

_SILENT = ("unreachable", "lost")


@click.group(cls=Listing)
@json_option
@click.pass_context
def replicas(context: click.Context) -> None:
    """List replicas, of one model with `replicas MODEL`, or restart one."""
    list_unless_told(context)


@replicas.command("list")
@click.argument("model", required=False)
@json_option
@pass_session
def list_replicas(session: Session, model: str | None) -> None:
    """List replicas: where, how, why not; of MODEL alone, with the last output of those that failed."""
    found = [one for one in session.client().get("replicas") if model is None or one["model"] == model]
    if not found:
        text = "no replica" if model is None else f"no replica of {model!r}; see 'llmgw ctl explain {model}'"
    else:
        header = [
            "REPLICA",
            "NODE",
            "PHASE",
            "SINCE",
            "PROFILE",
            "GENERATION",
            "ADDRESS",
            "PID",
            "MEM",
            "REASON",
        ]
        text = _with_downloads(session.table(header, [_row(one) for one in found]), found)
    if model is not None:
        for one in found:
            if one.get("memory_peak_bytes") is not None:
                most = show_bytes(one["memory_peak_bytes"])
                text += f"\n\n{plain(one['id'])} on {plain(one['node'])} has held {most} of memory at most"
            if one["tail"]:
                text += "\n\n" + listed(f"last output of {one['id']} on {one['node']}", one["tail"])
    session.print(found, text)


@replicas.command()
@click.argument("id")
@json_option
@pass_session
def restart(session: Session, id: str) -> None:
    """Let the replica called ID finish what it has, stop it and start it again."""
    told = session.client().post("replicas", id, "restart", body={})
    text = f"replica {plain(id)} ({plain(told['generation'])}) ends when it has finished what it has, and starts again"
    session.print(told, text)


def _with_downloads(text: str, found: list[dict[str, Any]]) -> str:
    """Put a line under each replica that is fetching: how far its download is."""
    lines, going = [], {one["id"]: one["progress"]["text"] for one in found if one.get("progress")}
    for line in text.splitlines():
        lines.append(line)
        # A row may be wrapped; only its first line begins with the replica's name.
        if (said := going.pop(line.partition(" ")[0], None)) is not None:
            lines.append(f"  fetching: {plain(said)}")
    return "\n".join(lines)


def _row(one: dict[str, Any]) -> list[Any]:
    return [
        one["id"],
        one["node"],
        _phase(one),
        age(one["since_s"]),
        _profile(one),
        one["generation"],
        one["address"],
        one["pid"],
        show_bytes(one.get("memory_bytes")),
        _reason(one),
    ]


def _phase(one: dict[str, Any]) -> str:
    phase = "stopping" if one["leaving"] else str(one["phase"])
    return f"{phase} (node {one['node_state']})" if one["node_state"] in _SILENT else phase


def _profile(one: dict[str, Any]) -> str:
    profile = one["profile"] or UNKNOWN
    return profile if one["stale"] == "current" else f"{profile} ({one['stale']})"


def _reason(one: dict[str, Any]) -> str | None:
    parts = [one["reason"], one.get("going")]
    if one["exit_status"] is not None and one["phase"] == "failed":
        parts.append(_ended(one["exit_status"]))
    if one["next_try_s"] is not None:
        again = f"in {age(one['next_try_s'])}" if one["next_try_s"] > 0 else "when it fits somewhere"
        parts.append(f"failure {one['failures']}, tried again {again}")
    return "; ".join(part for part in parts if part) or None


def _ended(exit_status: int) -> str:
    return f"ended by signal {-exit_status}" if exit_status < 0 else f"ended with status {exit_status}"
