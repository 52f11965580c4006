"""Requests over an agent's stream and the replies that answer them, paired by a number.

1. Any number of requests is in flight, to one node or to many; each ends with exactly one outcome.
2. What did not end well is a value with its reason: NoStream (nobody to ask), NoAnswer (the limit passed), Gone (the
   stream or this server ended meanwhile), Declined (the agent refused the command itself).
3. The numbers go on growing over restarts of the server, so an answer to an earlier start never meets a later request.
4. A reply that nobody waits for, or of another kind than was asked for, is dropped quietly: it came too late.
"""

import asyncio
import itertools
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

R = TypeVar("R")

ANSWER_LIMIT_S = 10.0
_A_START = 2**32


class NoStream(msgspec.Struct, frozen=True, tag=True):
    """The node has no stream to this server, so nothing was sent."""

    reason: str


class NoAnswer(msgspec.Struct, frozen=True, tag=True):
    """The node has a stream, and no answer came within the limit."""

    reason: str


class Gone(msgspec.Struct, frozen=True, tag=True):
    """The node's stream ended, or this server is ending, before an answer came."""

    reason: str


class Declined(msgspec.Struct, frozen=True, tag=True):
    """The agent acknowledged the command with an error."""

    reason: str


Unanswered = NoStream | NoAnswer | Gone | Declined


class _Asked(msgspec.Struct, frozen=True):
    node_id: str
    kind: type
    outcome: asyncio.Future[Any]


class Pairing:
    """What was asked and not yet answered. Owned by the hub, which sends the requests and hears the replies."""

    def __init__(self, epoch: int) -> None:
        """Take the number of this server start."""
        self._numbers = itertools.count(max(1, epoch * _A_START))
        self._asked: dict[int, _Asked] = {}
        self._closed = False

    async def ask(
        self,
        node_id: str,
        send: Callable[[int], bool],
        kind: type[R],
        limit_s: float = ANSWER_LIMIT_S,
    ) -> R | Unanswered:
        """Send a request and wait for its reply; cancelling forgets it.

        Args:
            send: sends the request of the number that it is given; False when the node has no stream.
            kind: what the reply must be.
            limit_s: seconds to wait.
        """
        if self._closed:
            return Gone("the server is ending")
        number = next(self._numbers)
        outcome: asyncio.Future[R | Unanswered] = asyncio.get_running_loop().create_future()
        self._asked[number] = _Asked(node_id, kind, outcome)
        try:
            if not send(number):
                return NoStream(f"no node called {node_id!r} has a stream to this server")
            async with asyncio.timeout(limit_s):
                return await outcome
        except TimeoutError:
            return NoAnswer(
                f"the agent of {node_id} did not answer within {limit_s:g} s; it may be too old, or stuck"
            )
        finally:
            del self._asked[number]

    def answer(self, node_id: str, number: int, reply: object) -> None:
        """Give a node's reply to whoever waits for it."""
        asked = self._asked.get(number)
        if asked is not None and asked.node_id == node_id and isinstance(reply, asked.kind):
            _end(asked, reply)

    def decline(self, node_id: str, number: int, reason: str) -> None:
        """End a request that the node refused to take."""
        asked = self._asked.get(number)
        if asked is not None and asked.node_id == node_id:
            _end(asked, Declined(reason))

    def disconnected(self, node_id: str) -> None:
        """End what waits for a node whose stream ended."""
        for asked in self._asked.values():
            if asked.node_id == node_id:
                _end(asked, Gone(f"the stream of {node_id} ended before it answered"))

    def close(self) -> None:
        """End all that waits, and what is asked from now on: this server is ending."""
        self._closed = True
        for asked in self._asked.values():
            _end(asked, Gone("the server is ending"))


def _end(asked: _Asked, outcome: object) -> None:
    if not asked.outcome.done():
        asked.outcome.set_result(outcome)
