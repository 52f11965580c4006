"""A followed log as server-sent events, each with the cursor after it as its id: whoever comes back goes on there."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import suppress

import msgspec

from llmgw.core.fleet.logs import LogEvent

PING_EVERY_S = 15.0
"""A stream without news says so this often, so that neither end takes the other for dead."""


async def log_events(
    events: AsyncIterator[LogEvent],
    *,
    may_look: Callable[[], bool] = lambda: True,
    ping_every_s: float = PING_EVERY_S,
) -> AsyncGenerator[bytes, None]:
    """Write events for a viewer until they end, or the viewer leaves and this is closed.

    Each is `id: CURSOR` where it moves, and `data:` with the event as JSON (see LogEvent). The last one is of the type
    `end`: a browser that is not told so would connect again.

    Args:
        may_look: tells whether the viewer still may; nothing more is said to one who may not, and the stream ends.
    """
    yield b"retry: 1000\n\n"
    coming = asyncio.ensure_future(anext(events))
    try:
        while True:
            done, _ = await asyncio.wait({coming}, timeout=ping_every_s)
            if not may_look():
                return
            if not done:
                yield b": still here\n\n"
                continue
            try:
                event = coming.result()
            except StopAsyncIteration:
                return
            yield _message(event)
            coming = asyncio.ensure_future(anext(events))
    finally:
        coming.cancel()
        with suppress(asyncio.CancelledError, StopAsyncIteration):
            await coming
        if isinstance(events, AsyncGenerator):
            await events.aclose()


def _message(event: LogEvent) -> bytes:
    head = (b"event: end\n" if event.ended else b"") + (
        f"id: {event.cursor}\n".encode() if event.cursor else b""
    )
    # JSON has no line ends of its own, so one data line holds it.
    return head + b"data: " + msgspec.json.encode(event) + b"\n\n"
