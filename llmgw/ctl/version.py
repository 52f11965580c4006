"""`ctl version`: the versions of ctl and server."""

import click

from llmgw import __version__
from llmgw.ctl.failure import Failed
from llmgw.ctl.session import Session, json_option, pass_session


@click.command()
@json_option
@pass_session
def version(session: Session) -> None:
    """Show the versions of ctl and server."""
    client = session.client()
    try:
        server = client.get("status")["version"]
    except Failed:
        # What runs here is known even when nobody answers.
        session.print({"ctl": __version__, "server": None}, f"ctl {__version__}")
        raise
    text = f"ctl {__version__}\nserver {server} at {client.server}"
    session.print({"ctl": __version__, "server": server}, text)
