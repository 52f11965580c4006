"""The cache's disk as a download uses it: each step in its one thread, each fault in words."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from llmgw.agent.discovery.disks import show_room
from llmgw.agent.fetcher.faults import CannotFetch
from llmgw.agent.fetcher.hands import Hands
from llmgw.agent.weights_cache import is_full

T = TypeVar("T")

LIMIT_S = 60.0


class Disk:
    """Does things to the cache's folder for the download of `what`."""

    def __init__(self, hands: Hands, folder: Path, what: str) -> None:
        self._hands = hands
        self._folder = folder
        self._what = what

    async def do(self, function: Callable[[], T], left_bytes: int | None = None) -> T:
        """Do one thing.

        Args:
            left_bytes: are still to be written, for the words on a full disk; None when nobody knows.

        Raises:
            CannotFetch: the disk is full, does not answer, or refuses.
        """
        try:
            return await self._hands.do(LIMIT_S, function)
        except TimeoutError as error:
            raise CannotFetch(
                f"{self._what}: the filesystem of {self._folder} did not answer within {LIMIT_S:g} s"
            ) from error
        except OSError as error:
            if is_full(error):
                raise CannotFetch(await self._full(left_bytes)) from error
            raise CannotFetch(
                f"{self._what}: the cache {self._folder} cannot be used: {_words(error)}; have a folder there that the "
                "agent may write, or name another as weights.cache in agent.yaml"
            ) from error

    def post(self, function: Callable[[], None]) -> None:
        """Have something done after all that was asked for before, and do not wait."""
        self._hands.post(function)

    async def room_problem(self, needed_bytes: int) -> str | None:
        """Say that the disk has too little room for what is still to come; None when it has enough."""
        free = await self.do(lambda: _free(self._folder))
        if needed_bytes <= free:
            return None
        room = await self.do(lambda: show_room(self._folder))
        return (
            f"{self._what}: {needed_bytes} bytes more are needed, and {room}; make room, or put weights.cache of "
            "agent.yaml on a larger disk"
        )

    async def _full(self, left_bytes: int | None) -> str:
        needed = "" if left_bytes is None else f"{left_bytes} bytes more are needed, and "
        room = await self.do(lambda: show_room(self._folder))
        return f"{self._what}: the disk is full: {needed}{room}; what came so far stays, and is gone on with"


def _words(error: OSError) -> str:
    # Making a folder says of a link that leads nowhere, too, that the file exists.
    if isinstance(error, FileExistsError):
        return "it is no folder, or a link that leads nowhere"
    return error.strerror or str(error)


def _free(folder: Path) -> int:
    sizes = os.statvfs(folder)
    return sizes.f_bavail * sizes.f_frsize
