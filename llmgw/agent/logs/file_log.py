"""Output in files, read from any place on, whatever has become of the files meanwhile.

A log is a chain of files: the run before (`NAME.1`), if there is one, and the present run (`NAME`). Which run a file
holds is told by its inode and the time that it was made, so a place in it stays the same through renaming. Rules:

1. A place in a file is followed by the rest of that file, and by the later files of the chain from their beginnings.
2. What was given back to the disk before a place was read (a hole at the file's beginning) is counted in bytes, and
   reading goes on at the first line that is there.
3. Where no holes can be made the newest part is moved to the front. Reading goes on where the bytes before the place
   are found again.
4. A place in a run that is gone is followed by the oldest line there is, and it is said that something is missing.
5. The last line of a run that is over needs no end. That of the present run waits for it (see `lines`).
"""

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from llmgw.agent.logs.birth import birth_ns
from llmgw.agent.logs.lines import Flush, split
from llmgw.agent.logs.position import ANCHOR_BYTES, Chunk, Position, anchor_of
from llmgw.agent.output import tail

READ_BYTES = 128 * 1024
_BLOCK = 64 * 1024
_SEARCHED_BYTES = 32 * 1024 * 1024


class _File(NamedTuple):
    """One open file of the chain."""

    descriptor: int
    run: str
    size: int


class FileLog:
    """One log by the path of its present run. Keeps nothing open and remembers nothing."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._chain = (path.with_name(f"{path.name}.1"), path)

    def tail(self, most: int) -> tuple[str, ...]:
        """Give the newest lines of the present run; of the one before while there is none."""
        return tail(self._path if self._path.exists() else self._chain[0], most)

    def begin(self, lines: int) -> Position | None:
        """Give the place in the present run that about so many of the newest lines follow; None without a file."""
        with self._opened() as files:
            return _place(files[-1], _back(files[-1], lines)) if files else None

    def read(
        self, position: Position | None, *, flush: Flush = Flush.NOTHING, until: Position | None = None
    ) -> Chunk:
        """Read a part of what follows a place; None begins with the present run.

        Args:
            flush: what becomes of a line without an end.
            until: a place to stop at.

        Raises:
            OSError: it cannot be read.
        """
        with self._opened() as files:
            if not files:
                return Chunk(position=position)
            if position is None:
                return self._read_on(files, len(files) - 1, Position(files[-1].run, 0), flush, until)
            for index, file in enumerate(files):
                if file.run == position.run:
                    return self._read_on(files, index, position, flush, until)
            oldest = self._read_on(files, 0, Position(files[0].run, 0), flush, until)
            return _changed(oldest, gap=True, new_run=True)

    def _read_on(
        self, files: list[_File], index: int, position: Position, flush: Flush, until: Position | None
    ) -> Chunk:
        file, is_last = files[index], index == len(files) - 1
        stop = until.offset if until is not None and until.run == file.run else None
        chunk = _read(file, position, Flush.ALL if not is_last else flush, stop)
        if is_last or not chunk.live or stop is not None:
            return chunk
        # The run is over and was read to its end: what comes is of the next one.
        following = files[index + 1]
        if chunk.lines or chunk.lost_bytes or chunk.gap:
            return _changed(chunk, live=False)
        return _changed(
            self._read_on(files, index + 1, Position(following.run, 0), flush, until), new_run=True
        )

    @contextlib.contextmanager
    def _opened(self) -> Iterator[list[_File]]:
        files: list[_File] = []
        try:
            for path in self._chain:
                with contextlib.suppress(FileNotFoundError):
                    files.append(_open(path))
            # Between the opening of the two a new run may have begun: then both are the same file.
            if len(files) == 2 and files[0].run == files[1].run:
                os.close(files.pop(0).descriptor)
            yield files
        finally:
            for file in files:
                os.close(file.descriptor)


def _open(path: Path) -> _File:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        found = os.fstat(descriptor)
        return _File(descriptor, f"{found.st_ino:x}-{birth_ns(descriptor):x}", found.st_size)
    except OSError:
        os.close(descriptor)
        raise


def _place(file: _File, offset: int, *, skipping: bool = False) -> Position:
    before = os.pread(file.descriptor, min(offset, ANCHOR_BYTES), max(0, offset - ANCHOR_BYTES))
    return Position(file.run, offset, anchor_of(before), skipping)


def _back(file: _File, lines: int) -> int:
    """Find the offset that `lines` lines follow, or the first that holds anything."""
    start, end = file.size, file.size
    wanted = lines
    while wanted >= 0 and start > 0:
        start = max(0, end - _BLOCK)
        block = os.pread(file.descriptor, end - start, start)
        if not block.strip(b"\0"):
            # Nothing but the hole at the beginning comes before.
            return end
        cut = len(block) - (1 if end == file.size and block.endswith(b"\n") else 0)
        while wanted > 0 and (found := block.rfind(b"\n", 0, cut)) >= 0:
            wanted, cut = wanted - 1, found
            if wanted == 0:
                return start + found + 1
        if wanted == 0:
            return file.size
        end = start
    return _first(file, 0)


def _read(file: _File, position: Position, flush: Flush, stop: int | None) -> Chunk:
    """Read what follows a place of this file, up to `stop`."""
    before, data = _around(file, position.offset)
    if position.offset > file.size or not _still_there(file, position, before):
        return _read_elsewhere(file, position, before, flush, stop)
    if stop is not None:
        data = data[: max(0, stop - position.offset)]
    is_all = position.offset + len(data) >= (file.size if stop is None else min(stop, file.size))
    found = split(data, skipping=position.skipping, flush=Flush.ALL if stop is not None and is_all else flush)
    used = position.offset + found.used
    behind = (before + data[: found.used])[-ANCHOR_BYTES:]
    pending = len(data) - found.used
    return Chunk(
        lines=found.lines,
        position=Position(file.run, used, anchor_of(behind), found.skipping),
        live=is_all and b"\n" not in data[found.used :],
        pending_bytes=pending,
    )


def _around(file: _File, offset: int) -> tuple[bytes, bytes]:
    """Read the bytes before a place and those after it, so that no hole was made between the two."""
    start = max(0, offset - ANCHOR_BYTES)
    while True:
        data = os.pread(file.descriptor, READ_BYTES + offset - start, start)
        before = data[: offset - start]
        if os.pread(file.descriptor, len(before), start) == before:
            return before, data[offset - start :]


def _still_there(file: _File, position: Position, before: bytes) -> bool:
    if not before:
        return not _is_hole(file)
    # A hole that ends just before the place took some of the bytes before it, and none behind it.
    partly_hole = before.startswith(b"\0") and not before.endswith(b"\0")
    return anchor_of(before) == position.anchor or partly_hole


def _read_elsewhere(file: _File, position: Position, before: bytes, flush: Flush, stop: int | None) -> Chunk:
    """Read on where a place has gone to: behind a hole, or further to the front."""
    if position.offset <= file.size and not before.strip(b"\0"):
        offset = _first(file, position.offset)
        chunk = _read(file, _place(file, offset), flush, stop)
        return _changed(chunk, lost_bytes=chunk.lost_bytes + offset - position.offset)
    moved = _found_again(file, position)
    if moved is None:
        return _changed(_read(file, _place(file, _first(file, 0)), flush, stop), gap=True)
    return _read(file, _place(file, moved, skipping=position.skipping), flush, stop)


def _is_hole(file: _File) -> bool:
    """Tell whether the file begins with a hole."""
    try:
        return os.lseek(file.descriptor, 0, os.SEEK_DATA) > 0
    except OSError as error:
        # Nothing but a hole, or nothing at all.
        if error.errno != errno.ENXIO:
            raise
        return file.size > 0


def _first(file: _File, offset: int) -> int:
    """Find the first offset from `offset` on that is no hole."""
    try:
        offset = os.lseek(file.descriptor, offset, os.SEEK_DATA)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        return file.size
    while block := os.pread(file.descriptor, _BLOCK, offset):
        if kept := block.lstrip(b"\0"):
            return offset + len(block) - len(kept)
        offset += len(block)
    return offset


def _found_again(file: _File, position: Position) -> int | None:
    """Find the latest end of a line that the same bytes stand before as before the place."""
    data = os.pread(file.descriptor, _SEARCHED_BYTES, 0)
    end = len(data)
    while (found := data.rfind(b"\n", 0, end)) >= 0:
        if anchor_of(data[max(0, found + 1 - ANCHOR_BYTES) : found + 1]) == position.anchor:
            return found + 1
        end = found
    return None


def _changed(
    chunk: Chunk,
    *,
    lost_bytes: int | None = None,
    gap: bool | None = None,
    new_run: bool | None = None,
    live: bool | None = None,
) -> Chunk:
    return Chunk(
        lines=chunk.lines,
        position=chunk.position,
        lost_bytes=chunk.lost_bytes if lost_bytes is None else lost_bytes,
        gap=chunk.gap if gap is None else gap,
        new_run=chunk.new_run if new_run is None else new_run,
        live=chunk.live if live is None else live,
        pending_bytes=chunk.pending_bytes,
    )
