"""Waiting for what another task does: looked at again and again, up to a deadline."""

import asyncio
from collections.abc import Callable
from typing import Any


async def until(condition: Callable[[], Any], within_s: float = 10.0) -> Any:
    """Return what `condition` gives as soon as that is true."""
    try:
        async with asyncio.timeout(within_s):
            # What is waited for has no event of its own.
            while not (found := condition()):  # noqa: ASYNC110
                await asyncio.sleep(0.005)
            return found
    except TimeoutError:
        raise AssertionError(f"not within {within_s} s") from None
