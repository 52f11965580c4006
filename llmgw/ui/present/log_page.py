"""A node's logs: its sources by name, and lines that say of themselves that something went wrong."""

import re
from collections.abc import Collection, Iterable

import msgspec

from llmgw.core.fleet.logs import AGENT, CRASH, FETCH, INSTALL, MOST_LINES
from llmgw.core.fleet.snapshot import Node

LINE_COUNTS = (100, 300, 1000, MOST_LINES)

# The same text is read by the script, so it keeps to what both kinds of expression know.
LOUD = r"\b(errors?|failed|failure|fatal|panic|aborted|traceback|exception|segfault|out of memory|cannot|critical)\b"
_LOUD = re.compile(LOUD, re.IGNORECASE)


class SourceLink(msgspec.Struct, frozen=True, kw_only=True):
    """One source of lines.

    Attributes:
        label: what it is called on the page.
        failed: its engine process has failed.
    """

    source: str
    label: str
    failed: bool


class Line(msgspec.Struct, frozen=True):
    """One line, and whether it speaks of a failure."""

    text: str
    loud: bool


def source_links(sources: Iterable[str], asked: str, node: Node | None) -> tuple[SourceLink, ...]:
    """Name the sources of a node; the one that was asked for is among them even when the node cannot show it."""
    failed = set() if node is None else {s.shard for s in node.shards.values() if s.phase == "failed"}
    named = dict.fromkeys([AGENT, *sources, asked])
    return tuple(
        SourceLink(source=source, label=_label(source), failed=source.removesuffix(CRASH) in failed)
        for source in sorted(named, key=lambda source: _order(source, failed))
    )


def lines_of(texts: Iterable[str]) -> tuple[Line, ...]:
    """Look which lines speak of a failure."""
    return tuple(Line(text, _LOUD.search(text) is not None) for text in texts)


def _label(source: str) -> str:
    if source == AGENT:
        return "agent"
    if source.endswith(CRASH):
        return f"{source.removesuffix(CRASH)} (first crash)"
    for head, verb in ((INSTALL, "installing"), (FETCH, "fetching")):
        if source.startswith(head):
            return f"{verb} {source.removeprefix(head)}"
    return source


def _order(source: str, failed: Collection[str]) -> tuple[int, str]:
    if source == AGENT:
        return 0, source
    return (1 if source.removesuffix(CRASH) in failed else 2), source
