"""The last lines that an engine wrote, fit to be shown: whatever bytes it wrote."""

import os
import re
from pathlib import Path

from llmgw.runtime.redaction import redact

LONGEST_LINE = 4096
_READ_BYTES = (256 * 1024, 16 * 1024 * 1024)
_CUT = " [cut]"

# CSI and OSC sequences, and other escapes of two characters.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")


def clean_lines(data: bytes, most: int) -> tuple[str, ...]:
    """Make the last `most` lines of raw output readable.

    Bytes that are no UTF-8 are replaced, escape sequences and control characters dropped, updates of one line by
    carriage returns collapse to the last, what looks like a credential is cut out, empty lines are left out, and a
    line is at most LONGEST_LINE bytes long, the cut marked.
    """
    lines: list[str] = []
    # A file whose beginning was given back to the disk reads as NULs there: they are no part of a line's length.
    for raw in reversed(data.replace(b"\0", b"").split(b"\n")):
        line = clean_line(raw)
        if line:
            lines.append(line)
        if len(lines) == most:
            break
    return tuple(reversed(lines))


def tail(path: Path, most: int) -> tuple[str, ...]:
    """Read the last `most` lines of a file; none when it cannot be read.

    As much of the file's end is read as that takes, up to 16 MiB.
    """
    lines: tuple[str, ...] = ()
    for count in _READ_BYTES:
        try:
            with path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - count))
                data = file.read(count)
        except OSError:
            return lines
        lines = clean_lines(data, most + 1)
        # The first line of a part may be the rest of one, so one more than is wanted must be there.
        if len(lines) > most or size <= count:
            break
    return lines[-most:]


def clean_line(raw: bytes) -> str:
    """Make one line without its end readable (see `clean_lines`); empty when it says nothing."""
    raw = raw.replace(b"\0", b"")
    updates = [part for part in raw.split(b"\r") if part.strip()]
    if not updates:
        return ""
    # Cut before anything that looks at every character: one line may be the whole file.
    last = updates[-1][: 4 * LONGEST_LINE]
    text = _CONTROLS.sub("", _ESCAPES.sub("", last.decode(errors="replace"))).rstrip()
    cut = redact(text).encode()
    if len(cut) <= LONGEST_LINE and len(updates[-1]) <= 4 * LONGEST_LINE:
        return cut.decode()
    return cut[: LONGEST_LINE - len(_CUT)].decode(errors="ignore") + _CUT
