"""`ctl logs`: the newest lines of a node's logs, and those that come; no ssh, no jump host, no root."""

import json
import time
from collections.abc import Iterator
from typing import Any

import click

from llmgw.ctl.client import Client
from llmgw.ctl.failure import Failed, Refused
from llmgw.ctl.render import plain
from llmgw.ctl.session import Session, json_option, pass_session

SILENT_S = 45.0
"""The server says something three times in this time, so a connection that is silent for so long is dead."""
WAITS_S = (0.5, 1.0, 2.0, 5.0)
INTERRUPTED = 130
_SHOWN = 20


@click.command()
@click.argument("node")
@click.option(
    "--source", metavar="NAME", default="agent", help="Which log: agent, a shard, install:ENGINE ..."
)
@click.option("-n", "--lines", metavar="N", default=200, help="How many of the newest lines; at most 2,000.")
@click.option("-f", "--follow", is_flag=True, help="Go on with the lines that come, until Ctrl-C.")
@json_option
@pass_session
def logs(session: Session, node: str, source: str, lines: int, follow: bool) -> None:
    """Show the logs of the node called NODE: its agent's, an engine's, those of an install or a download."""
    if follow:
        try:
            _Following(session, node, source, lines).run()
        except KeyboardInterrupt:
            click.get_current_context().exit(INTERRUPTED)
    else:
        _show(session, node, source, lines)


def _show(session: Session, node: str, source: str, lines: int) -> None:
    _, found = session.client().look("nodes", node, "logs", source=source, lines=str(lines))
    if session.as_json:
        session.print(found, "")
    else:
        for line in found["lines"]:
            click.echo(_safe(line))
    error = found.get("error")
    if error is not None:
        if not found["lines"]:
            raise Failed(f"{plain(error)}{_named(found['sources'], error)}")
        _note(plain(error))
    if not session.as_json:
        _note(_closing(found))


def _closing(found: dict[str, Any]) -> str:
    """Say what was shown, and what else there is."""
    count = len(found["lines"])
    shown = f"{count} line{'' if count == 1 else 's'} of {plain(found['source'])} on {plain(found['node'])}"
    if left_out := found.get("left_out"):
        shown += f" ({left_out} older ones had no room in the answer; ask for fewer, or follow with -f)"
    others = [source for source in found["sources"] if source != found["source"]]
    return (
        f"{shown}; {f'other sources (--source): {_listed(others)}' if others else 'there is no other source'}"
    )


def _named(sources: list[str], error: str) -> str:
    """Name the sources, unless the words of an error name them already."""
    return "" if all(source in error for source in sources) else f"; sources: {_listed(sources)}"


def _listed(sources: list[str]) -> str:
    shown = ", ".join(map(plain, sources[:_SHOWN]))
    return f"{shown} and {len(sources) - _SHOWN} more" if len(sources) > _SHOWN else shown


class _Over(Failed):
    """There is nothing to follow, or nothing more; trying again would not help."""


class _Following:
    """One `ctl logs -f`: goes on over restarts of the server and of the agent, from the last cursor it was given."""

    def __init__(self, session: Session, node: str, source: str, lines: int) -> None:
        self._client: Client = session.client()
        self._as_json = session.as_json
        self._node = node
        self._source = source
        self._lines = lines
        self._cursor: str | None = None
        self._note: str | None = None
        self._failed = 0

    def run(self) -> None:
        """Print what comes, until the source ends.

        Raises:
            Failed: there is nothing to follow, or nothing more.
        """
        while True:
            try:
                if self._followed():
                    return
                why = "the server ended the stream"
            except (Refused, _Over):
                raise
            except Failed as failed:
                if self._cursor is None:
                    raise
                why = failed.message
            if self._failed == 0:
                _note(f"{why}; trying again")
            time.sleep(WAITS_S[min(self._failed, len(WAITS_S) - 1)])
            self._failed += 1

    def _followed(self) -> bool:
        """Print what one connection brings; True when the source has ended."""
        query = {"source": self._source, "lines": str(self._lines)}
        if self._cursor is not None:
            query["cursor"] = self._cursor
        with self._client.stream("nodes", self._node, "logs", "follow", silent_s=SILENT_S, **query) as lines:
            for event in _events(lines):
                if self._failed and event["note"] is None:
                    _note("going on")
                    self._failed = 0
                if self._printed(event):
                    return True
        return False

    def _printed(self, event: dict[str, Any]) -> bool:
        self._cursor = event["cursor"] or self._cursor
        if self._as_json:
            click.echo(json.dumps(event, ensure_ascii=False))
        else:
            self._say(event)
        if event["error"] is not None:
            raise _Over(f"{plain(event['error'])}{_named(event['sources'] or [], event['error'])}")
        return bool(event["ended"])

    def _say(self, event: dict[str, Any]) -> None:
        if event["marker"]:
            _note(f"[{plain(event['marker'])}]")
        if event["note"] is not None and event["note"] != self._note:
            _note(plain(event["note"]))
        elif event["note"] is None and self._note is not None:
            _note(f"node {plain(self._node)} is back")
        self._note = event["note"]
        for line in event["lines"]:
            click.echo(_safe(line))
        if event["ended"] and event["error"] is None:
            _note(f"{plain(self._source)} has ended")


def _events(lines: Iterator[bytes]) -> Iterator[dict[str, Any]]:
    """Read server-sent events whose data is one line of JSON."""
    for line in lines:
        if line.startswith(b"data: "):
            event: dict[str, Any] = json.loads(line[6:])
            yield event


def _safe(line: str) -> str:
    """Make a line safe to print: the server dropped what steers a terminal, and nobody must take that on trust."""
    return "\t".join(map(plain, line.split("\t")))


def _note(text: str) -> None:
    click.echo(f"llmgw: {text}", err=True)
