"""One file: fetched, gone on with where it broke off, counted and verified.

1. A try begins where the partial ends (Range). A 200 to that means from the beginning; a 206 of something else, or a
   416 that does not say that all is there, too.
2. Beginning anew is allowed MOST_RESTARTS times, or a server that cannot resume and breaks off would be asked for ever.
3. The hash is counted while bytes are written; that of a partial is counted from the disk before it is gone on with.
4. What is whole by its size and has another hash is removed. If some of it was there before, it is fetched once more
   from its beginning: the disk may have lost what a process that died had written.
5. A full disk leaves the partial for the next try.
"""

import hashlib
import logging
import os
import re
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeVar

import httpx

from llmgw.agent.fetcher.disk import Disk
from llmgw.agent.fetcher.faults import Broken, CannotFetch
from llmgw.agent.fetcher.meter import Meter
from llmgw.agent.fetcher.origin import Wanted, digest_of, length_of
from llmgw.agent.fetcher.silence import Silence
from llmgw.agent.fetcher.staging import Pin, Staging
from llmgw.agent.fetcher.web import Web, place
from llmgw.core.units import MIB, show_bytes
from llmgw.runtime.clock import Clock

log = logging.getLogger("llmgw.agent.fetcher")

MOST_RESTARTS = 3
PIECE_BYTES = 4 * MIB
PIECE_S = 0.2
HASH_BYTES = 64 * MIB
SYNC_BYTES = 256 * MIB
TELL_S = 30.0
"""Between two words in the log on how far it is."""
T = TypeVar("T")
_RANGE = re.compile(r"bytes (?:(\d{1,18})-(\d{1,18})|\*)/(\d{1,18}|\*)\Z")


class Tools(NamedTuple):
    """What all files of one flight are fetched with."""

    web: Web
    staging: Staging
    disk: Disk
    meter: Meter
    silence: Silence
    clock: Clock


class Download:
    """Fetches one file into a staging folder. `run` is awaited once; cancelling leaves the partial."""

    def __init__(self, wanted: Wanted, what: str, tools: Tools) -> None:
        """Take what is wanted; `what` names it for people."""
        self._wanted = wanted
        self._what = what
        self._web, self._staging, self._disk, self._meter, self._silence, self._clock = tools
        self._partial = self._staging.partial(wanted.name)
        self._descriptor = -1
        self._have = 0
        self._size = wanted.size
        self._pin = Pin(size=wanted.size, digest=wanted.digest)
        self._hash: hashlib._Hash | None = None
        self._restarts = 0
        self._resumed = False
        self._ended = False
        self._unsynced = 0
        self._told_now = self._clock.now()

    async def run(self) -> None:
        """Fetch the file until it is whole and verified.

        Raises:
            CannotFetch: it cannot be had; says why.
        """
        have = await self._do(lambda: self._staging.prepare(self._wanted))
        self._meter.has(self._wanted.name, have)
        if await self._do(lambda: self._staging.is_whole(self._wanted.name)):
            log.info("%s: is whole already, %s", self._what, show_bytes(have))
            return
        try:
            await self._do(self._open)
            await self._recall(have)
            # Hashing what was there takes its time, in which nobody was asked for a byte.
            self._silence.heard()
            while True:
                await self._fetched()
                if await self._verified():
                    return
        finally:
            self._disk.post(self._close)

    # what is there already

    def _open(self) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor = os.open(self._partial, flags, 0o644)

    def _close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    async def _recall(self, have: int) -> None:
        """Take up the partial: what was said of it, and the hash of what there is of it."""
        pin = self._staging.pin(self._wanted.name)
        if have and pin is not None:
            self._pin = pin
            self._size = self._size if self._size is not None else pin.size
        if not have or (self._size is not None and have > self._size):
            await self._emptied()
            return
        self._have, self._resumed = have, True
        log.info("%s: %d bytes of it are here from an earlier try", self._what, have)
        self._hash = _hash_of(self._digest(), self._size)
        done = 0
        while self._hash is not None and done < have:
            done += await self._do(partial(self._hashed, done, min(HASH_BYTES, have - done)))

    def _hashed(self, at: int, count: int) -> int:
        read = 0
        while read < count:
            data = os.pread(self._descriptor, min(PIECE_BYTES, count - read), at + read)
            if not data:
                raise OSError(f"{self._partial} ends before its own size")
            assert self._hash is not None
            self._hash.update(data)
            read += len(data)
        return read

    def _digest(self) -> str | None:
        return self._wanted.digest or self._pin.digest

    # tries

    async def _fetched(self) -> None:
        """Try until all of it is there."""
        while not self._is_all_there():
            try:
                await self._tried()
            except Broken as error:
                await self._silence.wait(str(error))

    def _is_all_there(self) -> bool:
        return self._have == self._size if self._size is not None else self._ended

    async def _tried(self) -> None:
        what = f"what follows byte {self._have}" if self._have else "all of it"
        log.info("%s: asks %s for %s", self._what, place(self._wanted.url), what)
        async with self._web.asked("GET", self._wanted.url, self._asking()) as answer:
            if await self._begins(answer):
                await self._taken(answer)

    def _asking(self) -> dict[str, str]:
        if not self._have:
            return {}
        headers = {"range": f"bytes={self._have}-"}
        # Where the hash is known beforehand it tells; the tag of one server of many may differ from the other's.
        same = None if self._wanted.digest else self._pin.etag or self._pin.modified
        return headers | ({"if-range": same} if same else {})

    async def _begins(self, answer: httpx.Response) -> bool:
        """Take the head of an answer; False when its body is not wanted."""
        if answer.headers.get("content-encoding", "identity") != "identity":
            raise CannotFetch(f"{self._what}: the server sends it compressed, though it was asked not to")
        if answer.status_code == 200:
            await self._begins_anew(answer)
            return True
        if answer.status_code in (206, 416) and self._have:
            return await self._goes_on(answer)
        raise self._web.refused(answer, self._wanted.url, self._what)

    async def _begins_anew(self, answer: httpx.Response) -> None:
        if self._have:
            await self._restarted("the server sends it from its beginning again")
        length = length_of(answer.headers)
        if self._wanted.size is not None and self._wanted.digest and length not in (None, self._wanted.size):
            raise CannotFetch(
                f"{self._what}: its source says {self._wanted.size} bytes, and the server would send {length}"
            )
        self._size = length if length is not None else self._wanted.size
        self._ended = False
        etag = answer.headers.get("etag", "")
        self._pin = Pin(
            size=self._size,
            digest=self._wanted.digest or digest_of(answer.headers),
            etag=etag if etag.startswith('"') else None,
            modified=answer.headers.get("last-modified"),
        )
        self._hash = _hash_of(self._digest(), self._size)
        self._meter.expect(self._wanted.name, self._size)
        if self._wanted.size is None and (problem := await self._disk.room_problem(self._size or 0)):
            raise CannotFetch(problem)
        pin = self._pin
        await self._do(lambda: self._staging.keep_pin(self._wanted.name, pin))

    async def _goes_on(self, answer: httpx.Response) -> bool:
        found = _RANGE.match(answer.headers.get("content-range", ""))
        total = int(found[3]) if found and found[3] != "*" else None
        if answer.status_code == 416:
            if total == self._have and self._size in (None, total):
                self._size = total
            elif total is not None and self._size is not None and self._wanted.digest:
                raise CannotFetch(
                    f"{self._what}: its source says {self._size} bytes, and the server has {total} of it"
                )
            else:
                await self._restarted(f"the server has no byte {self._have} of it")
            return False
        starts = int(found[1]) if found and found[1] else None
        if starts != self._have or (None not in (total, self._size) and total != self._size):
            await self._restarted("the server goes on with something else")
            return False
        self._size = total if self._size is None else self._size
        self._meter.expect(self._wanted.name, self._size)
        return True

    async def _restarted(self, why: str) -> None:
        self._restarts += 1
        if self._restarts > MOST_RESTARTS:
            raise CannotFetch(f"{self._what}: broke off {self._restarts} times, and {why} each time")
        log.warning("%s: %s; %d bytes are thrown away", self._what, why, self._have)
        await self._emptied()

    async def _emptied(self) -> None:
        await self._do(lambda: os.ftruncate(self._descriptor, 0))
        self._have, self._resumed, self._ended = 0, False, False
        self._hash = _hash_of(self._digest(), self._size)
        self._meter.has(self._wanted.name, 0)

    # bytes

    async def _taken(self, answer: httpx.Response) -> None:
        """Write what comes; what came before a break is written too."""
        came, began = bytearray(), self._clock.now()
        try:
            async for chunk in answer.aiter_raw():
                self._silence.heard()
                came += chunk
                now = self._clock.now()
                if len(came) >= PIECE_BYTES or now - began >= PIECE_S:
                    await self._written(bytes(came))
                    came, began = bytearray(), now
        except httpx.TransportError:
            await self._written(bytes(came))
            raise
        await self._written(bytes(came))
        self._ended = True
        if self._size is not None and self._have < self._size:
            raise Broken(f"the server sent {self._have} of {self._size} bytes and ended")

    async def _written(self, data: bytes) -> None:
        if not data:
            return
        if self._size is not None and self._have + len(data) > self._size:
            raise CannotFetch(f"{self._what}: more came than the {self._size} bytes that it should have")
        at = self._have
        await self._do(lambda: self._write(at, data))
        self._have += len(data)
        self._meter.came(self._wanted.name, len(data))
        if self._clock.now() - self._told_now >= TELL_S:
            self._told_now = self._clock.now()
            log.info("%s: %s", self._what, self._meter.progress())

    def _write(self, at: int, data: bytes) -> None:
        view = memoryview(data)
        while view:
            count = os.pwrite(self._descriptor, view, at)
            at, view = at + count, view[count:]
        if self._hash is not None:
            self._hash.update(data)
        self._unsynced += len(data)
        if self._unsynced >= SYNC_BYTES:
            # Bit by bit, or the last step of a large file would wait for all of it.
            os.fdatasync(self._descriptor)
            self._unsynced = 0

    # the end

    async def _verified(self) -> bool:
        """Check what is all there and make it whole; False when it is to be fetched once more."""
        digest = self._digest()
        if self._hash is None or digest is None:
            await self._do(self._settle)
            log.info(
                "%s: %d bytes are here; its source names no hash to verify them by", self._what, self._have
            )
            return True
        found = f"{digest.partition(':')[0]}:{self._hash.hexdigest()}"
        if found == digest:
            await self._do(self._settle)
            log.info("%s: verified, %d bytes have the hash %s", self._what, self._have, found)
            return True
        if self._resumed:
            await self._restarted(
                f"what was there of it before does not belong to it ({found}, wanted {digest})"
            )
            return False
        await self._do(lambda: self._partial.unlink(missing_ok=True))
        raise CannotFetch(
            f"{self._what}: what came has {found}, wanted {digest}; it was removed. Its source, or a proxy on the way, "
            "hands out something else than it says"
        )

    def _settle(self) -> None:
        os.fsync(self._descriptor)
        os.replace(self._partial, self._staging.whole(self._wanted.name))

    async def _do(self, function: Callable[[], T]) -> T:
        return await self._disk.do(function, None if self._size is None else self._size - self._have)


def _hash_of(digest: str | None, size: int | None) -> "hashlib._Hash | None":
    """Begin the hash that a digest is of; None when there is none, or it cannot be counted."""
    if digest is None:
        return None
    if digest.startswith("sha256:"):
        return hashlib.sha256()
    # git hashes a file with its size before it.
    return None if size is None else hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
