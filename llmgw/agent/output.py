"""The last lines that an engine wrote, fit to be shown: whatever bytes it wrote."""

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from llmgw.runtime.redaction import redact_all

LONGEST_LINE = 4096
_READ_BYTES = (256 * 1024, 16 * 1024 * 1024)
_CUT = " [cut]"

# CSI and OSC sequences, and other escapes of two characters.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")


class _Text(NamedTuple):
    """What one line says, before credentials are cut out of it; `cut` when there was more of it."""

    text: str
    cut: bool


def clean_lines(data: bytes, most: int) -> tuple[str, ...]:
    """Make the last `most` lines of raw output readable.

    Bytes that are no UTF-8 are replaced, escape sequences and control characters dropped, updates of one line by
    carriage returns collapse to the last, what looks like a credential is cut out, empty lines are left out, and a
    line is at most LONGEST_LINE bytes long, the cut marked.
    """
    texts: list[_Text] = []
    # A file whose beginning was given back to the disk reads as NULs there: they are no part of a line's length.
    for raw in reversed(data.replace(b"\0", b"").split(b"\n")):
        if (text := _text_of(raw)) is not None:
            texts.append(text)
        if len(texts) == most:
            break
    return _finished(texts[::-1])


def clean_all(raws: Iterable[bytes]) -> tuple[str, ...]:
    """Make lines without their ends readable (see `clean_lines`); those that say nothing are left out."""
    return _finished([text for raw in raws if (text := _text_of(raw.replace(b"\0", b""))) is not None])


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


def _text_of(raw: bytes) -> _Text | None:
    """Read one line; None when it says nothing."""
    last = raw
    if b"\r" in raw:
        last = next((part for part in reversed(raw.split(b"\r")) if part.strip()), b"")
    # Cut before anything that looks at every character: one line may be the whole file.
    kept = last[: 4 * LONGEST_LINE]
    text = kept.decode(errors="replace")
    if not text.isprintable():
        text = _CONTROLS.sub("", _ESCAPES.sub("", text))
    text = text.rstrip()
    return _Text(text, len(last) > len(kept)) if text else None


def _finished(texts: list[_Text]) -> tuple[str, ...]:
    redacted = redact_all([text.text for text in texts])
    return tuple(_bounded(line, cut=text.cut) for line, text in zip(redacted, texts, strict=True))


def _bounded(line: str, *, cut: bool) -> str:
    # No character takes more than four bytes.
    if not cut and len(line) <= LONGEST_LINE // 4:
        return line
    data = line.encode()
    if not cut and len(data) <= LONGEST_LINE:
        return line
    return data[: LONGEST_LINE - len(_CUT)].decode(errors="ignore") + _CUT
