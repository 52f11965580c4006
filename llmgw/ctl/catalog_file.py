"""A catalog file as ctl sends it: read, checked as far as ctl can, and problems shown with their lines."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from llmgw.core.errors import BadInput, Problem
from llmgw.core.fleet.catalog import read_catalog
from llmgw.ctl.failure import BadFile, Refused, Unreadable

STDIN = "-"


def read_file(reading: Any, path: str) -> Any:
    """Read a catalog file; `-` is standard input.

    Args:
        reading: reads YAML; handed in, since importing it costs a fifth of ctl's start.

    Returns:
        The document: its data and where each part of it stands.

    Raises:
        Unreadable: there is no such file, or it is no catalog at all.
        BadFile: it has problems; each is shown with its line.
    """
    document = _read(reading, path)
    _, problems = read_catalog(document.data)
    # A fallback may name a model that is stored already, and only the server knows those.
    problems = [problem for problem in problems if "fallback" not in problem.path]
    if problems:
        raise _refused(reading, document, problems)
    return document


@contextmanager
def shown_in(reading: Any, document: Any) -> Iterator[None]:
    """Show the problems that the server finds in a document with their lines."""
    try:
        yield
    except Refused as refused:
        if not refused.problems:
            raise
        problems = [Problem(tuple(one["path"]), one["message"]) for one in refused.problems]
        raise _refused(reading, document, problems) from refused


def _read(reading: Any, path: str) -> Any:
    try:
        if path == STDIN:
            document = reading.parse_yaml(sys.stdin.buffer.read(), "standard input")
        else:
            document = reading.read_yaml(path)
    except BadInput as error:
        raise Unreadable(str(error)) from error
    if "models" not in document.data:
        raise Unreadable(
            f"{document.name}:1: 'models' is missing; an empty catalog is written as 'models: []'"
        )
    return document


def _refused(reading: Any, document: Any, problems: list[Problem]) -> BadFile:
    count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    text = f"{reading.problems_text(document, problems)}\n{document.name}: {count}; nothing was changed"
    found = [{"path": list(problem.path), "message": problem.message} for problem in problems]
    return BadFile(
        text, {"error": {"code": "bad_input", "message": f"the catalog has {count}", "problems": found}}
    )
