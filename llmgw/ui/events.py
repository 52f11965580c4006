"""Live pages: pictures that all viewers share, and the stream that tells one viewer what changed.

Guarantees:
1. Nothing is looked at while nobody looks: the streams themselves refresh the pictures, and there is no other task.
2. A picture is refreshed at most once a second however many look at it, and seldom enough that this takes no more than
   a fiftieth of the time. While it is, others have their turns.
3. A stream says only what changed since the revision that its page shows. When the server does not know that revision
   (it was started anew) it says everything.
4. Streams end by themselves after some minutes, and within a second when whoever looks may no longer; the browser asks
   for the next one, which goes on where the last one ended. They all end at once when the server does.
5. No stream touches the database.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

import msgspec

from llmgw.core.errors import NotFound
from llmgw.runtime.clock import Clock
from llmgw.ui.picture import Picture, Render, Shown

EVERY_S = 1.0
KEPT_S = 60.0
"""How long a picture that nobody looks at is kept: a page asks for its stream a moment after it was sent."""
MOST_KEPT = 200
LONGEST_STREAM_S = 600.0
SILENT_S = 15.0
"""A stream without news says so this often, so that neither end takes the other for dead."""
SHARE, SELDOM_S = 0.02, 10.0
STEPS = 16
"""Fragments that are rendered before others have their turn: some milliseconds' worth."""

Show = Callable[[], Shown]
"""Looks at what a page is to show; NotFound when there is nothing any more."""


class Hello(msgspec.Struct, frozen=True, kw_only=True):
    """What a viewer is told first.

    Attributes:
        at_s: the server's time, Unix seconds, which ages are counted by.
        build: of the static files; a page of another build loads itself anew.
        token: what the forms of this viewer must carry from now on.
    """

    at_s: float
    build: str
    token: str


class _Kept:
    """A picture, when to look anew, and who is at it."""

    def __init__(self, picture: Picture) -> None:
        self.picture = picture
        self.next_now = float("-inf")
        self.used_now = 0.0
        self.looking = asyncio.Lock()


class Live:
    """All pictures by the path of their page."""

    def __init__(self, clock: Clock, *, every_s: float = EVERY_S) -> None:
        self._clock = clock
        self._every_s = every_s
        self._kept: dict[str, _Kept] = {}
        self._ending = asyncio.Event()

    async def picture(self, path: str, show: Show, render: Render) -> Picture:
        """Give the picture of a page, no older than a second, or what its last rendering allows.

        Raises:
            NotFound: what it showed is gone.
        """
        kept = self._keep(path, render)
        async with kept.looking:
            began = self._clock.now()
            if began >= kept.next_now:
                await _take(kept.picture, show())
                # A large fleet is looked at less often, rather than at the cost of what else the server does.
                took_s = self._clock.now() - began
                kept.next_now = began + max(self._every_s, min(took_s / SHARE, SELDOM_S))
        return kept.picture

    async def stream(
        self,
        path: str,
        show: Show,
        render: Render,
        *,
        revision: str | None,
        hello: Hello,
        may_look: Callable[[], bool] = lambda: True,
    ) -> AsyncIterator[bytes]:
        """Tell what changes, as server-sent events, until the viewer leaves, the server ends or some minutes passed.

        Args:
            revision: that the viewer's page shows.
            may_look: tells whether the viewer still may.
        """
        now = self._clock.now()
        began, said = now, now
        yield b"retry: 1000\n\n" + _event("hello", hello)
        while not self._ending.is_set() and now - began < LONGEST_STREAM_S and may_look():
            try:
                patch = (await self.picture(path, show, render)).since(revision)
            except NotFound as error:
                yield _event("gone", str(error))
                return
            if patch is not None:
                revision, said = patch.revision, now
                yield _event("patch", patch, revision)
            elif now - said >= SILENT_S:
                said = now
                yield b": still here\n\n"
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), self._every_s)
            now = self._clock.now()

    def refresh(self) -> None:
        """Let every picture be looked at anew: somebody just changed something, and wants to see it."""
        for kept in self._kept.values():
            kept.next_now = float("-inf")

    def end(self) -> None:
        """End every stream, those to come too."""
        self._ending.set()

    def _keep(self, path: str, render: Render) -> _Kept:
        """Find the picture of a page, or begin one; forget those that nobody has looked at for long."""
        now = self._clock.now()
        for old in [path for path, kept in self._kept.items() if now - kept.used_now > KEPT_S]:
            del self._kept[old]
        kept = self._kept.get(path)
        if kept is None:
            if len(self._kept) >= MOST_KEPT:
                del self._kept[min(self._kept, key=lambda one: self._kept[one].used_now)]
            kept = self._kept[path] = _Kept(Picture(render, secrets.token_hex(6)))
        kept.used_now = now
        return kept


async def _take(picture: Picture, shown: Shown) -> None:
    for number, _ in enumerate(picture.take(shown), start=1):
        if number % STEPS == 0:
            await asyncio.sleep(0)


def _event(name: str, data: object, id: str | None = None) -> bytes:
    head = f"event: {name}\n" + (f"id: {id}\n" if id else "")
    # JSON has no line ends of its own, so one data line holds it.
    return head.encode() + b"data: " + msgspec.json.encode(data) + b"\n\n"
