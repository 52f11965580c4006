"""One thread that does one thing after the other for a download, so that the loop never waits for a disk.

What is asked of it happens in that order, also when whoever asked has been cancelled meanwhile: a write that is under
way ends before anything else touches the file. A filesystem that does not answer costs this one thread.
"""

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable
from functools import partial
from typing import TypeVar

T = TypeVar("T")


class Hands:
    """The thread. It is begun with the first thing to do and ends with `rest`, after which nothing is asked of it."""

    def __init__(self, after: "Hands | None" = None) -> None:
        """Take whose work must be done before this one's begins: who touched the same files before."""
        self._todo: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._after = after
        self._thread: threading.Thread | None = None

    async def do(self, limit_s: float, function: Callable[[], T]) -> T:
        """Do one thing and return what it returns, or raise what it raises; cancelling does not undo it.

        Raises:
            TimeoutError: it was not done within `limit_s` seconds.
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
            value, raised = None, None
            try:
                value = function()
            except BaseException as error:  # noqa: BLE001 # handed to whoever asked
                raised = error
            try:
                loop.call_soon_threadsafe(deliver, value, raised)
            except RuntimeError:
                # The loop has been closed meanwhile; nobody waits any more.
                return

        self.post(work)
        async with asyncio.timeout(limit_s):
            return await answer

    def post(self, function: Callable[[], None]) -> None:
        """Have something done, and do not wait; it must not raise. What it logs is on behalf of who asked."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="llmgw-fetch", daemon=True)
            self._thread.start()
        self._todo.put(partial(contextvars.copy_context().run, function))

    def rest(self) -> None:
        """End the thread when all is done that was asked for."""
        self._todo.put(None)

    def _work(self) -> None:
        if self._after is not None and self._after._thread is not None:
            self._after._thread.join()
        self._after = None
        while (function := self._todo.get()) is not None:
            function()
