"""Logs: one line an event, with its fields behind it, and no secret in it."""

import logging
import re
import sys
from typing import TextIO

# Whatever looks like a credential is cut before a line is written anywhere (LOG-9): our own keys, hub tokens,
# Authorization values, and `key=...`-like pairs.
_SECRETS = re.compile(
    r"""(?ix)
    (?P<kept>
        (?:\b|_)(?:api[_-]?key|x-api-key|authorization|password|passwd|token|secret)["']?\s*[:=]\s*["']?
        (?:(?:bearer|basic)\s+)?
    | \b(?:bearer|basic)\s+
    | \bsk-(?:llmgw-)?
    | \bhf_(?=\w{8})
    )
    [A-Za-z0-9._~+/=-]{4,}
    """
)


def redact(text: str) -> str:
    """Replace whatever looks like a credential in `text` by `[redacted]`, keeping what names it."""
    return _SECRETS.sub(lambda match: f"{match['kept']}[redacted]", text)


class _Formatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        # A client may put anything into a name; what follows a line break in it must not look like a record.
        first, *rest = super().format(record).replace("\r", "\\r").split("\n")
        return redact("\n  ".join([first, *rest]))


def formatter() -> logging.Formatter:
    """Make what writes a record as a redacted line, for any handler that keeps lines."""
    return _Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%S")


def set_up(level: str = "INFO", stream: TextIO | None = None) -> None:
    """Send every log line to `stream` (standard error when None) in one format, redacted."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(formatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
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
