"""Values as text for people: tables, facts, ages and sizes. Unknown is `-`."""

import textwrap
from collections.abc import Sequence
from typing import Any

from llmgw.core.units import show_bytes, show_seconds

UNKNOWN = "-"
LEAST_WRAPPED = 24
"""A last column is wrapped only when this many characters are left for it."""

_COLORS = {
    "ready": "32",
    "active": "32",
    "fits": "32",
    "unreachable": "33",
    "draining": "33",
    "cordoned": "33",
    "starting": "33",
    "lost": "31",
    "failed": "31",
}


def plain(text: object) -> str:
    """Make text of others safe to print: control characters, which could steer a terminal, are spelt out."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(text))


def shown(value: object) -> str:
    """Show one value; None is unknown, an empty list is known to be empty."""
    if value is None or value == "":
        return UNKNOWN
    if isinstance(value, list):
        return ", ".join(plain(item) for item in value) or "none"
    return plain(value)


def age(seconds: float | None) -> str:
    """Show how long something lasts."""
    return UNKNOWN if seconds is None else show_seconds(seconds)


def part(free: int | None, total: int | None) -> str:
    """Show what is free of what there is: `3.1 GiB of 8.0 GiB`."""
    if free is None and total is None:
        return UNKNOWN
    return f"{show_bytes(free)} of {show_bytes(total)}"


def moment(text: str | None) -> str:
    """Show a time of the API (ISO 8601, UTC) to the minute."""
    return UNKNOWN if text is None else plain(text[:16].replace("T", " "))


def counts(by_word: dict[str, int]) -> str:
    """Show how many of each: `2 ready, 1 lost`."""
    return ", ".join(f"{count} {plain(word)}" for word, count in by_word.items()) or "none"


def table(
    header: Sequence[str], rows: Sequence[Sequence[Any]], *, width: int | None = None, color: bool = False
) -> str:
    """Lay rows out in aligned columns.

    Args:
        width: of the terminal; the last column is wrapped to fit. None leaves every row on one line, for programs.
        color: tint the words that tell states.
    """
    cells = [[shown(value) for value in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(header, *cells, strict=True)][:-1]
    lines = []
    for row in [list(header), *cells]:
        lines += _row(row, widths, width, color and row is not header)
    return "\n".join(lines)


def _row(row: list[str], widths: list[int], width: int | None, color: bool) -> list[str]:
    fixed = "".join(
        _tinted(cell, color) + " " * (w + 2 - len(cell)) for cell, w in zip(row, widths, strict=False)
    )
    left = sum(widths) + 2 * len(widths)
    if width is None or left + len(row[-1]) <= width or width - left < LEAST_WRAPPED:
        return [(fixed + _tinted(row[-1], color)).rstrip()]
    first, *more = textwrap.wrap(row[-1], width - left)
    return [fixed + first, *(" " * left + line for line in more)]


def _tinted(cell: str, color: bool) -> str:
    code = _COLORS.get(cell.split(" ")[0]) if color else None
    return f"\x1b[{code}m{cell}\x1b[0m" if code else cell


def facts(pairs: Sequence[tuple[str, object]]) -> str:
    """Lay names and values out in two columns."""
    widest = max(len(name) for name, _ in pairs)
    return "\n".join(f"{name:<{widest}}  {shown(value)}" for name, value in pairs)


def listed(title: str, lines: Sequence[object]) -> str:
    """Show lines under a title, indented."""
    return "\n".join([f"{title}:", *(f"  {plain(line)}" for line in lines)])
