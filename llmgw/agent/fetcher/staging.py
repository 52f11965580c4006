"""What lies on the disk while a source is fetched: partial files, what they are of, and the lock.

    NAME.part/
      lock                  held by an OS lock that dies with the process that has it; the file itself means nothing
      draft.json            of which source, and what its server said of each file
      files/FILE.partial    as far as it came
      files/FILE            whole and verified

1. A partial is gone on with only where what the source says of its file now is what it said then.
2. Where there is no hash to tell, a partial from before a restart of the machine is thrown away: what had been written
   then need not have reached the disk.
3. Everything moves to its place by renames, the first part of a split file last: where that is, all are.
"""

import contextlib
import errno
import fcntl
import logging
import os
import shutil
from pathlib import Path

import msgspec

from llmgw.agent.fetcher.origin import Wanted
from llmgw.agent.processes import boot_id
from llmgw.agent.weights_cache import LOCK, Note, WeightsCache
from llmgw.core.fleet.weights import FOLDER_ENDING, parts_of

log = logging.getLogger("llmgw.agent.fetcher")

PARTIAL = ".partial"
_WITHOUT_LOCKS = frozenset({errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})


class Pin(msgspec.Struct, frozen=True, kw_only=True):
    """What was said of a file when its partial was begun.

    Attributes:
        etag: with which the server can tell whether it still is the same; strong ones alone.
        modified: the same by its time of change.
    """

    size: int | None = None
    digest: str | None = None
    etag: str | None = None
    modified: str | None = None


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """What is written down of a download.

    Attributes:
        boot: the machine's boot during which it was begun or gone on with last.
        moving: all files are whole, and are being moved to their places.
    """

    source: str
    boot: str
    moving: bool = False
    pins: dict[str, Pin] = {}


class Staging:
    """The folder of one download. All of it touches the disk, in the one thread of the download."""

    def __init__(self, cache: WeightsCache, name: str, source: str) -> None:
        """Take the cache name and the source in a form that may be shown."""
        self.name = name
        self._cache = cache
        self._source = source
        self._folder = cache.staging(name)
        self._files = self._folder / "files"
        self._lock: int | None = None
        self._draft = Draft(source=source, boot="")

    # the lock

    def lock(self) -> bool:
        """Take the lock; False when another process has it.

        Raises:
            OSError: the cache cannot be written.
        """
        self._folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        path = self._folder / LOCK
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            # Whoever had it removes the folder in this very moment.
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Whoever had it may have finished and removed the folder meanwhile.
            ours = _is_same(descriptor, path)
        except BlockingIOError:
            ours = False
        except OSError as error:
            if error.errno not in _WITHOUT_LOCKS:
                os.close(descriptor)
                raise
            # Where there are no locks, this agent's own order must do: it has one flight a source.
            ours = True
            log.warning("%s knows no locks (%s)", self._folder, error.strerror)
        if not ours:
            os.close(descriptor)
            return False
        self._lock = descriptor
        return True

    def unlock(self) -> None:
        """Give the lock back, if it was taken."""
        descriptor, self._lock = self._lock, None
        if descriptor is not None:
            os.close(descriptor)

    def leave(self) -> None:
        """Give the lock back, if it was taken; a folder that nothing came into goes with it."""
        if self._lock is not None and not self._draft.moving and not self._holds_bytes():
            shutil.rmtree(self._folder, ignore_errors=True)
        self.unlock()

    def _holds_bytes(self) -> bool:
        with contextlib.suppress(OSError):
            return any(path.stat().st_size for path in self._files.rglob("*") if path.is_file())
        return True

    # the draft

    def open(self) -> None:
        """Read what an earlier try left, and throw away what cannot be gone on with.

        Raises:
            OSError: the cache cannot be read or written.
        """
        try:
            draft = msgspec.json.decode((self._folder / "draft.json").read_bytes(), type=Draft)
        except (FileNotFoundError, msgspec.DecodeError):
            draft = Draft(source=self._source, boot="")
        if draft.source != self._source:
            draft = Draft(source=self._source, boot="")
        boot = boot_id()
        pins = {
            name: pin
            for name, pin in draft.pins.items()
            if pin.digest is not None or draft.boot == boot or self.is_whole(name)
        }
        self._draft = msgspec.structs.replace(draft, boot=boot, pins=pins)
        if not self._draft.moving:
            self._files.mkdir(mode=0o755, exist_ok=True)
            self._save()

    def pin(self, name: str) -> Pin | None:
        """Say what was said of a file when it was begun."""
        return self._draft.pins.get(name)

    def keep_pin(self, name: str, pin: Pin) -> None:
        """Write down what was said of a file, before its first byte.

        Raises:
            OSError: it cannot be written.
        """
        if self._draft.pins.get(name) != pin:
            self._draft = msgspec.structs.replace(self._draft, pins=self._draft.pins | {name: pin})
            self._save()

    def _save(self) -> None:
        unfinished = self._folder / "draft.new"
        unfinished.write_bytes(msgspec.json.encode(self._draft))
        unfinished.replace(self._folder / "draft.json")

    # the files

    def partial(self, name: str) -> Path:
        """Say where a file lies that is not whole."""
        return self._files / f"{name}{PARTIAL}"

    def whole(self, name: str) -> Path:
        """Say where a file lies that is whole and verified."""
        return self._files / name

    def fits(self, wanted: Wanted) -> bool:
        """Tell whether what lies here of a file is of what its source has now; None says nothing either way."""
        pin = self.pin(wanted.name)
        if pin is None:
            return False
        # Two hashes say everything; without them the size must do, and whether the server goes on with it.
        if wanted.digest is not None and pin.digest is not None:
            return wanted.digest == pin.digest
        return None in (wanted.size, pin.size) or wanted.size == pin.size

    def prepare(self, wanted: Wanted) -> int:
        """Make ready for a file; what does not belong to it any more is removed.

        Returns:
            Bytes that lie here of it already.

        Raises:
            OSError: the cache cannot be written.
        """
        partial, whole = self.partial(wanted.name), self.whole(wanted.name)
        partial.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        if not self.fits(wanted):
            for path in (partial, whole):
                self._discard(path, wanted)
        for path in (whole, partial):
            with contextlib.suppress(FileNotFoundError):
                return path.stat().st_size
        return 0

    def _discard(self, path: Path, wanted: Wanted) -> None:
        with contextlib.suppress(FileNotFoundError):
            size = path.stat().st_size
            path.unlink()
            log.warning(
                "weights %s: %d bytes of %s from an earlier try are thrown away: nothing tells that they are of what "
                "its source has now",
                self._source,
                size,
                wanted.name,
            )

    def is_whole(self, name: str) -> bool:
        """Tell whether a file is here, whole and verified."""
        return self.whole(name).is_file()

    # the end

    def is_moving(self) -> bool:
        """Tell whether an earlier process died while it moved whole files to their places."""
        return self._draft.moving

    def finish(self, size_bytes: int | None) -> Path:
        """Move all files to their places and remove what is left here.

        Returns:
            Where the weights are: the file, the first part, or the folder.

        Raises:
            OSError: the cache cannot be written; a later `finish` goes on.
        """
        if not self._draft.moving:
            self._cache.keep_note(self.name, Note(source=self._source, size_bytes=size_bytes))
            self._draft = msgspec.structs.replace(self._draft, moving=True)
            self._save()
        if self.name.endswith(FOLDER_ENDING):
            self._move(self._files, self._cache.place(self.name))
        else:
            for part in reversed(parts_of(self.name)):
                self._move(self.whole(part), self._cache.place(part))
        _sync(self._cache.folder)
        shutil.rmtree(self._folder, ignore_errors=True)
        return self._cache.place(self.name)

    def _move(self, whole: Path, place: Path) -> None:
        # What was moved before this process's predecessor died is there already.
        if whole.exists():
            os.replace(whole, place)


def shown_draft(folder: Path) -> str | None:
    """Say of which source an unfinished download is; None when it does not say."""
    try:
        return msgspec.json.decode((folder / "draft.json").read_bytes(), type=Draft).source
    except (OSError, msgspec.DecodeError):
        return None


def _is_same(descriptor: int, path: Path) -> bool:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return False
    ours = os.fstat(descriptor)
    return (found.st_dev, found.st_ino) == (ours.st_dev, ours.st_ino)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
