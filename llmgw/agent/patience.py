"""Calls that may hang in the kernel, made in a thread that is given up when its time is over."""

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def call_within(limit_s: float, function: Callable[[], T]) -> T:
    """Call `function` in a thread and return what it returns, or raise what it raises.

    The thread is a daemon: a look at a dead network filesystem never ends, and neither a pool of workers nor the end
    of the agent may wait for it.

    Raises:
        TimeoutError: it took longer than `limit_s` seconds; the thread is left behind.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()

    def deliver(value: T | None, error: BaseException | None) -> None:
        if answer.done():
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(value)  # type: ignore[arg-type] # None is a T when the function returns it

    def work() -> None:
        value, error = None, None
        try:
            value = function()
        except BaseException as raised:  # noqa: BLE001 # handed to the caller, who waits for it
            error = raised
        try:
            loop.call_soon_threadsafe(deliver, value, error)
        except RuntimeError:
            # The loop has been closed meanwhile; nobody waits any more.
            return

    threading.Thread(target=work, name="llmgw-call", daemon=True).start()
    # Not wait_for: in Python 3.11 it loses a cancellation that comes together with the answer.
    async with asyncio.timeout(limit_s):
        return await answer


class Looks:
    """Calls that are made again and again: while one of a name still hangs, the next of that name is not begun."""

    def __init__(self) -> None:
        self._hanging: set[str] = set()

    async def within(self, limit_s: float, name: str, function: Callable[[], T]) -> T:
        """Do as `call_within` does.

        Raises:
            TimeoutError: it took too long, or an earlier call of this name has not come back.
        """
        if name in self._hanging:
            raise TimeoutError
        self._hanging.add(name)

        def work() -> T:
            try:
                return function()
            finally:
                self._hanging.discard(name)

        return await call_within(limit_s, work)
