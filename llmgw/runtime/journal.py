"""Logs: one line an event, with its fields behind it, and no secret in it."""

import logging
import re
import sys
from typing import TextIO

# Whatever looks like a credential is cut before a line is written anywhere (LOG-9): our own keys, hub tokens,
# Authorization values, and `key=...`-like pairs.
_SECRETS = re.compile(
    r"""(?ix)
    \b(sk-[a-z0-9-]*?|hf_)[A-Za-z0-9_-]{8,}
    | \b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}
    | \b(api[_-]?key|x-api-key|authorization|password|token|secret)(["']?\s*[:=]\s*["']?)[^\s"',;&]{4,}
    """
)


def redact(text: str) -> str:
    """Replace whatever looks like a credential in `text` by `[redacted]`, keeping what names it."""
    return _SECRETS.sub(lambda m: f"{m[3]}{m[4]}[redacted]" if m[3] else f"{m[1] or m[2]}[redacted]", text)


class _Formatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        # A client may put anything into a name; a line break in it must not make a second log line.
        text = super().format(record)
        first, *rest = text.split("\n")
        return redact("\n".join([first.replace("\r", "\\r"), *rest]))


def set_up(level: str = "INFO", stream: TextIO | None = None) -> None:
    """Send every log line to `stream` (standard error when None) in one format, redacted."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%S"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    # Per-request and per-connection lines of libraries say nothing an operator can use.
    for noisy in (
        "websockets",
        "uvicorn",
        "uvicorn.access",
        "uvicorn.error",
        "aiosqlite",
        "alembic",
        "asyncio",
    ):
        logging.getLogger(noisy).setLevel("WARNING")
