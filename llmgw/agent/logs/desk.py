"""Answers for the logs of this node, beside the loop that reads the link.

1. Nothing here waits where commands are taken: a request becomes a task of its own, a follow an entry in a list.
2. At most MOST_REQUESTS are answered at once and MOST_FOLLOWS are followed; one more is refused in words.
3. An answer holds REPLY_BYTES at most: the newest lines win. A piece of a follow holds one part of a file.
4. Follows are looked at every LOOK_EVERY_S, all in one thread, and only while there are any. One that has sent as many
   pieces as may be under way is left alone until the server took some.
5. The end of a connection ends all of it: the server asks again over the next one.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from llmgw.agent.complaints import Complaints
from llmgw.agent.logs.following import Following
from llmgw.agent.logs.sources import Sources
from llmgw.agent.patience import Looks, call_within
from llmgw.core.fleet.logs import AGENT, MOST_LINES
from llmgw.core.units import MIB
from llmgw.runtime.clock import Clock
from llmgw.wire.frames import FollowLogs, LogLines, LogsReply, LogsRequest

log = logging.getLogger("llmgw.agent.logs")

MOST_REQUESTS = 16
MOST_FOLLOWS = 64
REPLY_BYTES = MIB
READ_LIMIT_S = 8.0
LOOK_EVERY_S = 0.1

Say = Callable[[LogsReply | LogLines], None]


class LogDesk:
    """Owner of the requests and follows of the connection there is; `run` must run for anything to be answered."""

    def __init__(self, sources: Sources, say: Say, *, clock: Clock, looks: Looks | None = None) -> None:
        """Take the logs, and what lets an answer wait for the connection there is.

        Args:
            looks: reads for follows in a thread; one of its own when None.
        """
        self._sources = sources
        self._say = say
        self._clock = clock
        self._follows: dict[int, Following] = {}
        self._requests: set[asyncio.Task[None]] = set()
        self._looks = looks or Looks()
        self._woken = asyncio.Event()
        self._complaints = Complaints(log)

    def reset(self) -> None:
        """Forget what was asked over a connection that ended."""
        self._follows.clear()
        for task in self._requests:
            task.cancel()

    # what the server asks; none of it waits

    def request(self, frame: LogsRequest) -> None:
        """Begin to answer a request."""
        if len(self._requests) >= MOST_REQUESTS:
            self._refuse(frame, f"{MOST_REQUESTS} requests for logs wait on this node already; ask again")
            return
        task = asyncio.create_task(self._answer(frame))
        self._requests.add(task)
        task.add_done_callback(self._requests.discard)

    def follow(self, frame: FollowLogs) -> None:
        """Begin a follow, or replace the one of this id."""
        if len(self._follows) >= MOST_FOLLOWS:
            error = f"{MOST_FOLLOWS} logs are followed on this node already"
            self._say(LogLines(follow_id=frame.follow_id, number=1, ended=True, error=error))
            return
        self._follows[frame.follow_id] = Following(frame, self._sources, self._clock.now())
        self._woken.set()

    def taken(self, follow_id: int, number: int) -> None:
        """Hear that pieces of a follow were taken."""
        if (following := self._follows.get(follow_id)) is not None:
            following.taken(number)
            self._woken.set()

    def stop(self, follow_id: int) -> None:
        """End a follow."""
        self._follows.pop(follow_id, None)

    # requests

    async def _answer(self, frame: LogsRequest) -> None:
        try:
            reply = await call_within(READ_LIMIT_S, partial(self._read, frame))
        except TimeoutError:
            self._refuse(frame, f"the disk did not give the lines within {READ_LIMIT_S:g} s")
        except Exception as error:  # the border of an owned task: whoever asked gets an answer
            log.exception("a request for the logs of %r failed", frame.source[:100])
            self._refuse(frame, f"internal error in the agent: {type(error).__name__}; its log says more")
        else:
            self._say(reply)

    def _read(self, frame: LogsRequest) -> LogsReply:
        """Read what is asked for; in a thread."""
        names = self._sources.names()
        source = self._sources.find(frame.source)
        if isinstance(source, str):
            return LogsReply(request_id=frame.request_id, sources=names, error=source)
        wanted = source.tail(max(1, min(frame.lines, MOST_LINES)))
        lines = newest_within(wanted, REPLY_BYTES)
        return LogsReply(
            request_id=frame.request_id,
            lines=lines,
            sources=names,
            error=None if lines else self._sources.silence(frame.source),
            left_out=len(wanted) - len(lines),
        )

    def _refuse(self, frame: LogsRequest, why: str) -> None:
        self._say(LogsReply(request_id=frame.request_id, sources=(AGENT,), error=why))

    # follows

    async def run(self) -> None:
        """Look after the follows for as long as there are any, and wait for the next one; until cancelled."""
        try:
            while True:
                self._woken.clear()
                if not self._follows:
                    await self._woken.wait()
                if not await self._round():
                    with suppress(TimeoutError):
                        async with asyncio.timeout(LOOK_EVERY_S):
                            await self._woken.wait()
        finally:
            for task in self._requests:
                task.cancel()

    async def _round(self) -> bool:
        """Look at every follow once; True when one of them had more than it could say."""
        ready = [following for following in self._follows.values() if following.may_send]
        if not ready:
            return False
        now = self._clock.now()
        try:
            pieces = await self._looks.within(READ_LIMIT_S, "follows", partial(_look_at, ready, now))
        except TimeoutError:
            why = "the log cannot be read: the disk does not answer"
            self._complaints.say("disk", why, now)
            for following in ready:
                # What a look that hangs may still find is not told, so the follow must be begun anew.
                self.stop(following.id)
                self._say(LogLines(follow_id=following.id, ended=True, error=why))
            return False
        more = False
        for following, piece in pieces:
            # It may have been stopped, or its connection may have ended, while it was looked at.
            if piece is None or self._follows.get(following.id) is not following:
                continue
            self._say(piece)
            if piece.ended:
                del self._follows[following.id]
            elif not piece.live and following.may_send:
                more = True
        return more


def _look_at(ready: list[Following], now: float) -> list[tuple[Following, LogLines | None]]:
    return [(following, _looked(following, now)) for following in ready]


def _looked(following: Following, now: float) -> LogLines | None:
    try:
        return following.look(now)
    except OSError as error:
        return following.failed(f"the log cannot be read: {error.strerror or error}", now)
    except Exception as error:  # the border of a frame: one follow never takes the others along
        log.exception("a follow failed")
        return following.failed(
            f"internal error in the agent: {type(error).__name__}; its log says more", now
        )


def newest_within(lines: tuple[str, ...], most_bytes: int) -> tuple[str, ...]:
    """Give the newest of the lines that have room."""
    for count, line in enumerate(reversed(lines)):
        most_bytes -= len(line.encode()) + 5
        if most_bytes < 0:
            return lines[len(lines) - count :]
    return lines
