"""Clients that keep asking, from a thread of their own, and an account of every answer."""

import asyncio
import itertools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from faults.client import Answer, ask

CHUNKS = 12
TEXT = "".join(f"{number} " for number in range(CHUNKS))
"""What the answering engine says to every request of the traffic."""

PAUSE_AFTER_FAILURE_S = 0.05


class Traffic:
    """Requests to one model, every other one a stream. `answers` grows; each in flight is in `in_flight`."""

    def __init__(self, address: str, key: str, model: str, *, exact: bool = True) -> None:
        """Take whom to ask.

        Args:
            exact: the bench's own engine answers, which says the same text to everybody; of another engine only the
                number of chunks is known.
        """
        self._address = address
        self._key = key
        self._model = model
        self._is_right = _is_right if exact else _is_complete
        self.answers: list[Answer] = []
        self.in_flight = 0
        self._stop = threading.Event()

    @contextmanager
    def of_clients(self, count: int) -> Iterator["Traffic"]:
        """Let `count` clients ask one request after the other until the end of the block."""
        with self._running(lambda: self._clients(count)):
            yield self

    @contextmanager
    def at_rate(self, per_s: float) -> Iterator["Traffic"]:
        """Begin `per_s` requests a second, whatever becomes of them, until the end of the block."""
        with self._running(lambda: self._paced(per_s)):
            yield self

    def wrong(self) -> list[Answer]:
        """List the answers that look like a success and are not what the engine says."""
        return [a for a in self.answers if a.is_whole and not self._is_right(a)]

    def failed(self) -> list[Answer]:
        """List the answers that are no whole success."""
        return [a for a in self.answers if not a.is_whole]

    @contextmanager
    def _running(self, work: Any) -> Iterator[None]:
        thread = threading.Thread(target=lambda: asyncio.run(work()), name="traffic")
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join(90)

    async def _clients(self, count: int) -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(count):
                group.create_task(self._client(number))

    async def _client(self, number: int) -> None:
        for turn in itertools.count(number):
            if self._stop.is_set():
                return
            answer = await self._ask(turn)
            if not answer.is_whole:
                await asyncio.sleep(PAUSE_AFTER_FAILURE_S)

    async def _paced(self, per_s: float) -> None:
        began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for turn in itertools.count():
                await asyncio.sleep(max(0.0, began + turn / per_s - time.monotonic()))
                if self._stop.is_set():
                    return
                group.create_task(self._ask(turn))

    async def _ask(self, turn: int) -> Answer:
        body = {
            "model": self._model,
            "messages": [{"role": "user", "content": f"Count, {turn}"}],
            "max_tokens": CHUNKS,
            "stream": turn % 2 == 0,
            "stream_options": {"include_usage": True},
        }
        if not body["stream"]:
            del body["stream_options"]
        self.in_flight += 1
        try:
            answer = await ask(self._address, self._key, body)
        finally:
            self.in_flight -= 1
        self.answers.append(answer)
        return answer


def _is_right(answer: Answer) -> bool:
    return answer.text == TEXT and answer.usage.get("completion_tokens") == CHUNKS


def _is_complete(answer: Answer) -> bool:
    # An answer that was not streamed has no chunks.
    return answer.chunks in (0, CHUNKS) and bool(answer.text) and answer.usage.get("completion_tokens", 0) > 0
