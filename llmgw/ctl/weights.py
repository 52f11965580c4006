"""`ctl weights`: what weights lie where, what nobody wants, and removing that."""

from typing import Any

import click

from llmgw.core.units import show_bytes
from llmgw.ctl.render import listed, plain
from llmgw.ctl.session import Session, json_option, pass_session

SHOWN_NODES = 3


@click.command()
@click.argument("names", nargs=-1)
@click.option(
    "--collect", is_flag=True, help="Have the nodes remove what nobody wants, or of that NAMES alone."
)
@click.option(
    "--node", "nodes", multiple=True, metavar="NODE", help="Of this node alone; may be given again."
)
@click.option("--all", "everything", is_flag=True, help="List what is wanted, too.")
@json_option
@pass_session
def weights(
    session: Session, names: tuple[str, ...], collect: bool, nodes: tuple[str, ...], everything: bool
) -> None:
    """List weights that nobody wants, with node, size and why; --collect has them removed.

    Only what llmgw fetched is removed: each node looks once more, and says why it keeps what it keeps.
    """
    if names and not collect:
        raise click.UsageError("NAMES say what to remove; write --collect as well")
    if collect:
        _collect(session, names, nodes)
        return
    found = session.client().get("weights")
    if nodes:
        found["weights"] = [one for one in found["weights"] if set(one["nodes"]) & set(nodes)]
    session.print(found, _text(session, found, everything))


def _collect(session: Session, names: tuple[str, ...], nodes: tuple[str, ...]) -> None:
    done = session.client().post("weights", "collect", body={"names": list(names), "nodes": list(nodes)})
    lines: list[str] = []
    for one in done["nodes"]:
        lines += _outcome(one)
    lines.append(
        f"freed {show_bytes(done['freed_bytes'])}" if done["nodes"] else "nothing to remove: all is wanted"
    )
    session.print(done, "\n".join(lines))
    if any(one["refused"] or one["error"] for one in done["nodes"]):
        click.get_current_context().exit(1)


def _outcome(one: dict[str, Any]) -> list[str]:
    node = plain(one["node"]) if one["node"] else "not asked"
    lines = [f"{node}: removed {plain(name)}" for name in one["removed"]]
    lines += [f"{node}: kept {plain(name)}: {plain(why)}" for name, why in one["refused"].items()]
    return [*lines, *([f"{node}: {plain(one['error'])}"] if one["error"] else [])]


def _text(session: Session, found: dict[str, Any], everything: bool) -> str:
    wanted = [one for one in found["weights"] if one["models"]]
    unwanted = [one for one in found["weights"] if not one["models"]]
    shown = [*(wanted if everything else ()), *unwanted]
    parts = []
    if shown:
        parts.append(session.table(["NODE", "SIZE", "WEIGHTS", "NAME", "WHY"], [_row(one) for one in shown]))
    parts.append(_sums(found, wanted))
    if found["silent"]:
        parts.append(listed("nodes that do not say what they hold", found["silent"]))
    return "\n".join(parts)


def _sums(found: dict[str, Any], wanted: list[dict[str, Any]]) -> str:
    size = show_bytes(sum(one["size_bytes"] or 0 for one in wanted))
    text = f"wanted: {len(wanted)}, {size}; "
    count = sum(one["removable"] for one in found["weights"])
    if not count:
        return f"{text}nothing to remove"
    return f"{text}to remove: {count}, {show_bytes(found['removable_bytes'])}; 'llmgw ctl weights --collect' does"


def _row(one: dict[str, Any]) -> list[Any]:
    return [
        _nodes(one),
        show_bytes(one["size_bytes"]),
        one["source"] or one["path"],
        one["name"],
        one["why"],
    ]


def _nodes(one: dict[str, Any]) -> str:
    more = f" and {len(one['nodes']) - SHOWN_NODES} more" if len(one["nodes"]) > SHOWN_NODES else ""
    names = f"{', '.join(one['nodes'][:SHOWN_NODES])}{more}"
    return f"{names} (shared on {one['device'] or 'a filer'})" if one["shared"] else names
