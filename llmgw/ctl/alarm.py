"""`ctl alarm`: most of the fleet fell silent at once."""

from typing import Any

import click

from llmgw.ctl.listing import Listing, list_unless_told
from llmgw.ctl.render import age, facts, plain
from llmgw.ctl.session import Session, json_option, pass_session


@click.group(cls=Listing)
@json_option
@click.pass_context
def alarm(context: click.Context) -> None:
    """Show the alarm of silence, or clear it."""
    list_unless_told(context)


@alarm.command("list")
@json_option
@pass_session
def show(session: Session) -> None:
    """Show the alarm, if there is one."""
    found = session.client().get("alarm")
    session.print(found, "no alarm" if found is None else _text(found))


@alarm.command()
@json_option
@pass_session
def clear(session: Session) -> None:
    """Say that the nodes of the alarm are gone; what ran there is placed elsewhere when they are lost."""
    ended = session.client().post("alarm", "clear")
    names = ", ".join(plain(node) for node in ended["nodes"])
    session.print(ended, f"the alarm is over; what ran on {names} is placed elsewhere when they are lost")


def _text(found: dict[str, Any]) -> str:
    return facts(
        [
            ("alarm", found["text"]),
            ("since", f"{age(found['since_s'])} ago"),
            ("silent", f"{len(found['nodes'])} of {found['fleet']} nodes"),
            ("nodes", list(found["nodes"])),
        ]
    )
