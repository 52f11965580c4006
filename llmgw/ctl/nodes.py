"""`ctl nodes` and `ctl node`: nodes as last observed, and what is wanted of them."""

from typing import Any

import click

from llmgw.ctl.hardware import fabric_line, gpu_lines, weights_line
from llmgw.ctl.listing import Listing, list_unless_told
from llmgw.ctl.render import UNKNOWN, age, facts, listed, moment, part, plain
from llmgw.ctl.session import Session, json_option, pass_session

SHOWN_EVENTS = 20


@click.group(cls=Listing)
@json_option
@click.pass_context
def nodes(context: click.Context) -> None:
    """List nodes, or say what is wanted of one: drain, cordon, uncordon, forget."""
    list_unless_told(context)


@nodes.command("list")
@json_option
@pass_session
def list_nodes(session: Session) -> None:
    """List nodes: state, room, engines."""
    found = session.client().get("nodes")
    header = [
        "NODE",
        "STATE",
        "SINCE",
        "SEEN",
        "ADDRESS",
        "CORES",
        "MEM FREE",
        "DISK FREE",
        "GPU FREE",
        "REPLICAS",
        "ENGINES",
    ]
    text = session.table(header, [_row(node) for node in found]) if found else "no node has registered"
    warnings = [f"{node['id']}: {warning}" for node in found for warning in node["warnings"]]
    session.print(found, f"{text}\n\n{listed('warnings', warnings)}" if warnings else text)


@nodes.command()
@click.argument("name")
@json_option
@pass_session
def drain(session: Session, name: str) -> None:
    """Empty the node called NAME: its replicas start elsewhere where they fit, finish what they have, and stop."""
    wanted = _tell(session, name, "draining")
    left = ", ".join(plain(replica) for replica in wanted["replicas"]) or "nothing"
    again = f"'llmgw ctl nodes uncordon {plain(name)}' ends the drain"
    session.print(wanted, f"node {plain(name)} is draining; still there: {left}; {again}")


@nodes.command()
@click.argument("name")
@json_option
@pass_session
def cordon(session: Session, name: str) -> None:
    """Let the node called NAME keep what it has and take nothing new."""
    wanted = _tell(session, name, "cordoned")
    again = f"'llmgw ctl nodes uncordon {plain(name)}' lets it take work again"
    session.print(wanted, f"node {plain(name)} is cordoned: it keeps what it has; {again}")


@nodes.command()
@click.argument("name")
@json_option
@pass_session
def uncordon(session: Session, name: str) -> None:
    """Let the node called NAME take work again, after a cordon or a drain."""
    session.print(_tell(session, name, "ready"), f"node {plain(name)} takes work again")


@nodes.command()
@click.argument("name")
@json_option
@pass_session
def forget(session: Session, name: str) -> None:
    """Forget the node called NAME, which is gone for good."""
    forgotten = session.client().post("nodes", name, "forget")
    session.print(forgotten, f"node {plain(name)} is forgotten; if its agent ever returns, it is a new node")


def _tell(session: Session, name: str, state: str) -> dict[str, Any]:
    wanted: dict[str, Any] = session.client().post("nodes", name, "state", body={"state": state})
    return wanted


@click.command()
@click.argument("name")
@json_option
@pass_session
def node(session: Session, name: str) -> None:
    """Show the node called NAME."""
    found = session.client().get("nodes", name)
    session.print(found, _details(found))


def _row(node: dict[str, Any]) -> list[Any]:
    return [
        node["id"],
        _state(node),
        age(node["since_s"]),
        f"{age(node['last_seen_s'])} ago",
        node["address"],
        node["cpu"]["cores"],
        part(node["memory_available_bytes"], node["memory_total_bytes"]),
        part(node["disk_free_bytes"], node["disk_total_bytes"]),
        _gpu_sums(node["gpu_sums"]),
        len(node["replicas"]),
        _engines(node["engines"]),
    ]


def _state(node: dict[str, Any]) -> str:
    """Show the state, and what an operator wants of a node that is away."""
    state, wanted = str(node["state"]), node["wanted"]
    return state if wanted in (state, "ready") else f"{state} (to be {wanted})"


def _engines(engines: list[dict[str, Any]] | None) -> str:
    if engines is None:
        return UNKNOWN
    names = [
        f"{engine['engine']} {engine['version'] or ''}".strip() + (" (broken)" if engine["problem"] else "")
        for engine in engines
    ]
    return ", ".join(sorted(names)) or "none"


def _gpu_sums(sums: dict[str, Any] | None) -> str:
    """Show how many GPUs nobody uses, of how many, and how much of their memory."""
    if sums is None:
        return UNKNOWN
    if not sums["total"]:
        return "none"
    return f"{sums['free']} of {sums['total']}, {part(sums['free_bytes'], sums['total_bytes'])}"


def _details(node: dict[str, Any]) -> str:
    cpu = node["cpu"]
    text = facts(
        [
            ("node", node["id"]),
            ("state", f"{_state(node)} for {age(node['since_s'])}"),
            ("seen", f"{age(node['last_seen_s'])} ago"),
            ("address", node["address"]),
            ("agent", node["version"]),
            ("pool", node["pool"]),
            ("labels", [f"{key}={value}" for key, value in sorted(node["labels"].items())]),
            ("system", node["os"]),
            ("kernel", node["kernel"]),
            ("processor", cpu["model"]),
            ("cores", cpu["cores"]),
            ("vector", cpu["vector"]),
            ("memory free", part(node["memory_available_bytes"], node["memory_total_bytes"])),
            *_filesystems(node["filesystems"]),
            ("GPU driver", _driver(node)),
            ("GPUs free", _gpu_sums(node["gpu_sums"])),
            ("replicas", node["replicas"]),
        ]
    )
    sections = [
        text,
        *(
            [listed("GPUs", [line for gpu in node["gpus"] for line in gpu_lines(gpu)])]
            if node["gpus"]
            else []
        ),
        *([listed("fabrics", [fabric_line(one) for one in node["fabrics"]])] if node["fabrics"] else []),
        *([listed("weights", [weights_line(one) for one in node["weights"]])] if node["weights"] else []),
        listed(
            "engines", [_engine(engine) for engine in node["engines"] or []] or [_engines(node["engines"])]
        ),
    ]
    if node["warnings"]:
        sections.append(listed("warnings", node["warnings"]))
    if node["events"]:
        lines = [f"{moment(event['at'])}  {event['text']}" for event in node["events"][-SHOWN_EVENTS:]]
        more = len(node["events"]) - len(lines)
        sections.append(listed(f"events (and {more} earlier ones in --json)" if more else "events", lines))
    return "\n".join(sections)


def _driver(node: dict[str, Any]) -> str | None:
    driver, cuda = node["gpu_driver"], node["cuda"]
    return f"{driver} (CUDA {cuda})" if driver and cuda else driver


def _filesystems(filesystems: list[dict[str, Any]] | None) -> list[tuple[str, object]]:
    if filesystems is None:
        return [("disk free", None)]
    return [
        (
            "shared disk free" if one["shared"] else "disk free",
            f"{part(one['free_bytes'], one['total_bytes'])} on {one['mount']}{_mounted(one)} "
            f"({', '.join(one['holds']) or UNKNOWN})",
        )
        for one in filesystems
    ]


def _mounted(one: dict[str, Any]) -> str:
    """Say which filesystem is there, as far as that is known."""
    said = " ".join(word for word in (one["kind"], one["device"]) if word)
    return f", {said}" if said else ""


def _engine(engine: dict[str, Any]) -> str:
    text = f"{engine['engine']} {engine['version'] or UNKNOWN} at {engine['path']}"
    return plain(f"{text}: {engine['problem']}" if engine["problem"] else text)
