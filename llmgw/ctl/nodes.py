"""`ctl nodes` and `ctl node`: nodes as last observed."""

from typing import Any

import click

from llmgw.ctl.render import UNKNOWN, age, facts, listed, part, plain
from llmgw.ctl.session import Session, json_option, pass_session


@click.command()
@json_option
@pass_session
def nodes(session: Session) -> None:
    """List nodes: state, room, engines."""
    found = session.client().get("nodes")
    header = [
        "NODE",
        "STATE",
        "SINCE",
        "SEEN",
        "ADDRESS",
        "CORES",
        "MEMORY FREE",
        "DISK FREE",
        "REPLICAS",
        "ENGINES",
    ]
    text = session.table(header, [_row(node) for node in found]) if found else "no node has registered"
    warnings = [f"{node['id']}: {warning}" for node in found for warning in node["warnings"]]
    session.print(found, f"{text}\n\n{listed('warnings', warnings)}" if warnings else text)


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
        node["state"],
        age(node["since_s"]),
        f"{age(node['last_seen_s'])} ago",
        node["address"],
        node["cpu"]["cores"],
        part(node["memory_available_bytes"], node["memory_total_bytes"]),
        part(node["disk_free_bytes"], node["disk_total_bytes"]),
        len(node["replicas"]),
        _engines(node["engines"]),
    ]


def _engines(engines: list[dict[str, Any]] | None) -> str:
    if engines is None:
        return UNKNOWN
    names = [
        f"{engine['engine']} {engine['version'] or ''}".strip() + (" (broken)" if engine["problem"] else "")
        for engine in engines
    ]
    return ", ".join(sorted(names)) or "none"


def _details(node: dict[str, Any]) -> str:
    cpu = node["cpu"]
    text = facts(
        [
            ("node", node["id"]),
            ("state", f"{node['state']} for {age(node['since_s'])}"),
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
            ("replicas", node["replicas"]),
        ]
    )
    sections = [
        text,
        listed(
            "engines", [_engine(engine) for engine in node["engines"] or []] or [_engines(node["engines"])]
        ),
    ]
    if node["warnings"]:
        sections.append(listed("warnings", node["warnings"]))
    return "\n".join(sections)


def _filesystems(filesystems: list[dict[str, Any]] | None) -> list[tuple[str, object]]:
    if filesystems is None:
        return [("disk free", None)]
    return [
        (
            "shared disk free" if one["shared"] else "disk free",
            f"{part(one['free_bytes'], one['total_bytes'])} on {one['mount']} ({', '.join(one['holds']) or UNKNOWN})",
        )
        for one in filesystems
    ]


def _engine(engine: dict[str, Any]) -> str:
    text = f"{engine['engine']} {engine['version'] or UNKNOWN} at {engine['path']}"
    return plain(f"{text}: {engine['problem']}" if engine["problem"] else text)
