"""The folder that this node keeps fetched weights in: what lies where, what is whole, and what may be removed.

    NAME                     the file, or the first part of a split one, or the folder of a whole repository
    NAME.json                what it is: its source and its size
    NAME.part/               a download that is not finished

Only names that are made of a source (core.fleet.weights) are ever removed, and only plain files and folders of this
folder itself: what is a link, leads elsewhere or is called otherwise is somebody else's.
"""

import contextlib
import errno
import fcntl
import os
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path

import msgspec

from llmgw.core.fleet.weights import FOLDER_ENDING, is_cache_name, parts_of

STAGING = ".part"
LOCK = "lock"
NOTE = ".json"


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """What lies beside fetched weights.

    Attributes:
        source: in a form that may be shown.
    """

    source: str
    size_bytes: int | None = None


class Removed(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a request to remove weights; `refused` says why, by each name that stays."""

    removed: tuple[str, ...] = ()
    freed_bytes: int = 0
    refused: dict[str, str] = {}


class WeightsCache:
    """The folder, as this agent was told of it. Its methods touch the disk: call them in a thread."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def place(self, name: str) -> Path:
        """Say where weights of this cache name are, when they are there."""
        return self.folder / name

    def staging(self, name: str) -> Path:
        """Say where an unfinished download of this name lies."""
        return self.folder / f"{name}{STAGING}"

    def find(self, name: str) -> Path | None:
        """Find whole weights; None when they are not there, or not all of them."""
        if name.endswith(FOLDER_ENDING):
            return self.place(name) if self.place(name).is_dir() else None
        parts = [self.folder / part for part in parts_of(name)]
        return parts[0] if all(part.is_file() for part in parts) else None

    def note(self, name: str) -> Note | None:
        """Read what lies beside weights; None when there is nothing that can be read."""
        try:
            return msgspec.json.decode((self.folder / f"{name}{NOTE}").read_bytes(), type=Note)
        except (OSError, msgspec.DecodeError):
            return None

    def keep_note(self, name: str, note: Note) -> None:
        """Write what lies beside weights, whole or not at all.

        Raises:
            OSError: it cannot be written.
        """
        path = self.folder / f"{name}{NOTE}"
        unfinished = self.staging(name) / "note"
        unfinished.write_bytes(msgspec.json.encode(note))
        unfinished.replace(path)

    def used(self, name: str) -> None:
        """Note that weights are used now, where that can be noted."""
        with contextlib.suppress(OSError):
            os.utime(self.folder / f"{name}{NOTE}")

    def remove(self, names: tuple[str, ...], busy: Mapping[str, str]) -> Removed:
        """Remove weights with all that belongs to them: parts, note, unfinished download.

        Args:
            busy: why a name must stay, in words.
        """
        removed, refused, freed = [], {}, 0
        for name in names:
            problem = busy.get(name) or self._problem(name)
            try:
                size = 0 if problem else self._remove_family(name)
            except OSError as error:
                problem = f"it cannot be removed: {error.strerror or error}"
            if problem:
                refused[name] = problem
            else:
                removed.append(name)
                freed += size
        return Removed(removed=tuple(removed), freed_bytes=freed, refused=refused)

    def _problem(self, name: str) -> str | None:
        """Say why a name is none that may be removed, looking at what lies there now."""
        if "/" in name or name in ("", ".", "..") or "\0" in name:
            return f"it is a path and no name of the cache; nothing outside of {self.folder} is removed"
        if not is_cache_name(name):
            if os.path.lexists(self.folder / name):
                return "its name is none that llmgw gives, so it is somebody's own file"
            return "its name is none that llmgw gives, and there is nothing of it in the cache"
        family = [path for path in self._family(name) if os.path.lexists(path)]
        if not family:
            return f"it is not in the cache {self.folder}"
        if problem := next((problem for path in family if (problem := self._strange(path))), None):
            return problem
        return "another process is fetching it" if _is_held(self.staging(name) / LOCK) else None

    def _strange(self, path: Path) -> str | None:
        """Say why something in the cache is not llmgw's own; links are resolved, for they may lead anywhere."""
        real, home = os.path.realpath(path), os.path.realpath(self.folder)
        if real != os.path.join(home, path.name):
            return f"{path.name} is a link to {real}; llmgw makes no links, so it is somebody's own"
        mode = os.lstat(path).st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            return f"{path.name} is neither a file nor a folder, so it is somebody's own"
        return None

    def _family(self, name: str) -> tuple[Path, ...]:
        beside = (self.folder / f"{name}{NOTE}", self.staging(name))
        return (*(self.folder / part for part in parts_of(name)), *beside)

    def _remove_family(self, name: str) -> int:
        freed = 0
        for path in self._family(name):
            with contextlib.suppress(FileNotFoundError):
                freed += size_of(path)
                if path.is_dir():
                    # It follows no links within, and refuses to begin at one.
                    shutil.rmtree(path)
                else:
                    path.unlink()
        return freed


def _is_held(lock: Path) -> bool:
    """Tell whether a process has the lock of an unfinished download."""
    try:
        descriptor = os.open(lock, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        # A filesystem without locks cannot tell, and nobody holds one there.
        return False
    finally:
        os.close(descriptor)
    return False


def size_of(path: Path) -> int:
    """Count the bytes of a file, or of all files in a folder, links not followed.

    Raises:
        OSError: it is not there.
    """
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode):
        return found.st_size
    total = 0
    for folder, _, files in os.walk(path):
        for file in files:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(folder, file)).st_size
    return total


def is_full(error: OSError) -> bool:
    """Tell whether a disk, or what one user may have of it, is full."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)
