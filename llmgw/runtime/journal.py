"""Logs: one line an event, with its fields behind it, and no secret in it."""

import logging
import sys
from typing import TextIO

from llmgw.runtime.redaction import redact


class _Formatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        # A client may put anything into a name; what follows a line break in it must not look like a record.
        first, *rest = super().format(record).replace("\r", "\\r").split("\n")
        return redact("\n  ".join([first, *rest]))


def formatter() -> logging.Formatter:
    """Make what writes a record as a redacted line, for any handler that keeps lines."""
    return _Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%S")


def set_up(level: str = "INFO", stream: TextIO | None = None, *, also_made: str | None = None) -> None:
    """Send every log line to `stream` (standard error when None) in one format, redacted.

    Args:
        level: the least that `stream` shows.
        stream: where lines go.
        also_made: a logger whose lines from INFO on are made in any case, for handlers that others add.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(formatter())
    handler.setLevel(level)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    if also_made is not None:
        logging.getLogger(also_made).setLevel("INFO")
    # Per-request and per-connection lines of libraries say nothing an operator can use.
    for noisy in (
        "websockets",
        # It would write each URL, and what a signed one carries is a key.
        "httpx",
        "httpcore",
        "uvicorn",
        "uvicorn.access",
        "uvicorn.error",
        "aiosqlite",
        "alembic",
        "asyncio",
    ):
        logging.getLogger(noisy).setLevel("WARNING")
