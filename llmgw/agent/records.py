"""What the agent writes down of each engine, so that its successor can take it over or tell it from a stranger.

1. One small JSON file a shard, replaced whole: a reader sees the old record or the new one.
2. A file that cannot be read, or holds what cannot be true, is set aside with its reason and hides no other.
3. Fields are only ever added. A record whose `version` is higher than this one's may mean something that is not known
   here, so it is not acted on: of it only the shard and the process are read.
4. Room on the disk is taken before an engine is launched, so that its record can be written afterwards.
5. A change that is written late never brings back a record that was removed.
"""

import contextlib
import os
import stat
import threading
from pathlib import Path
from urllib.parse import unquote

import msgspec

from llmgw.agent.processes import Identity, launch_name
from llmgw.agent.state_dir import file_name
from llmgw.core.fleet.sanity import sane
from llmgw.core.fleet.shards import Phase, ShardSpec, ShardState
from llmgw.core.ids import Generation

VERSION = 1
MOST_BYTES = 4 * 1024**2
MOST_PID = 2**22
"""The kernel's own bound of pids (PID_MAX_LIMIT)."""
_BELIEVED = ("port", "host", "since_s", "min_memory_gb")
_LISTENING = frozenset({Phase.READY, Phase.DRAINING})
_NEWS_BYTES = 1024
"""What a record may grow by between the taking of its room and its writing: pid, start time, a reason."""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One engine process that was started and not yet seen to end.

    Attributes:
        process: who it is.
        spec: what was asked for, whole.
        state: what was reported last.
        log: the file its output goes to.
        since_now: monotonic seconds, of the boot that `process` names, at which its phase began.
        limit_s: how long it may take to become ready.
        drain_ends_now: when a drain ends, in the same seconds; None when it is not drained.
    """

    version: int = VERSION
    shard: str
    generation: Generation
    process: Identity
    spec: ShardSpec
    state: ShardState
    log: str
    since_now: float
    health_path: str
    limit_s: float
    stop_grace_s: float
    drain_ends_now: float | None = None

    @property
    def launch(self) -> str:
        """What its processes carry in their environment."""
        return launch_name(self.shard, self.generation)


class Later(msgspec.Struct, frozen=True, kw_only=True):
    """What is read of a record that a later version wrote; None is what could not even be read so far."""

    path: str
    version: int
    shard: str
    generation: Generation | None = None
    process: Identity | None = None


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """All that lay in the folder; `problems` has a sentence for each file that is no record."""

    records: tuple[Record, ...] = ()
    later: tuple[Later, ...] = ()
    problems: tuple[str, ...] = ()


class _Version(msgspec.Struct):
    version: int = VERSION


class _Head(msgspec.Struct):
    shard: str
    generation: Generation
    process: Identity


class Records:
    """The records of one agent. Written by the supervisor's shards only, from any thread."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.Lock()
        self._of: dict[str, Identity] = {}

    def holder(self, shard: str) -> Identity | None:
        """Name the process that this shard's record is of, if it has one."""
        return self._of.get(shard)

    def reserve(self, record: Record) -> None:
        """Take the room that `record` will need, though its process is not known yet.

        Raises:
            OSError: there is none, or the folder cannot be written.
        """
        with self._lock:
            data = _padded(record, _NEWS_BYTES)
            _write(self._temporary(record.shard), data)

    def write(self, record: Record) -> None:
        """Write a record, whole or not at all, and onto the disk before it returns.

        Raises:
            OSError: it cannot be written.
        """
        with self._lock:
            self._replace(record)
            self._of[record.shard] = record.process

    def change(self, record: Record) -> None:
        """Write a record anew if it still is the one of its shard.

        Raises:
            OSError: it cannot be written; the old one stays.
        """
        with self._lock:
            if self._of.get(record.shard) == record.process:
                self._replace(record)

    def remove(self, shard: str) -> None:
        """Forget a shard's record, and room taken for one; what is not there is fine."""
        with self._lock:
            self._of.pop(shard, None)
            for path in (self._path(shard), self._temporary(shard)):
                with contextlib.suppress(FileNotFoundError):
                    path.unlink()

    def read(self) -> Found:
        """Read every record, once, before any is written.

        A file that is none is renamed and stays for a person; what an agent had begun to write when it died is removed.
        """
        for unfinished in self.folder.glob("*.new"):
            with contextlib.suppress(OSError):
                unfinished.unlink()
        records: list[Record] = []
        later: list[Later] = []
        problems: list[str] = []
        for path in sorted(self.folder.glob("*.json")):
            try:
                found = _decoded(path)
            except (OSError, ValueError, RecursionError) as error:
                problems.append(f"record {path} cannot be read and is set aside: {error}")
                _set_aside(path)
            else:
                if isinstance(found, Record):
                    records.append(found)
                    self._of[found.shard] = found.process
                else:
                    later.append(found)
        return Found(records=tuple(records), later=tuple(later), problems=tuple(problems))

    def set_aside(self, record: Record, why: str) -> str:
        """Take a record that was read for none after all; returns the sentence for it."""
        with self._lock:
            self._of.pop(record.shard, None)
            path = self._path(record.shard)
            _set_aside(path)
        return f"record {path} cannot be true and is set aside: {why}"

    def _replace(self, record: Record) -> None:
        temporary = self._temporary(record.shard)
        taken = temporary.stat().st_size if temporary.exists() else 0
        data = _padded(record, 0)
        # Written over the room that was taken for it, which needs no more of the disk.
        _write(temporary, data.ljust(taken))
        temporary.replace(self._path(record.shard))
        _sync(self.folder)

    def _path(self, shard: str) -> Path:
        return self.folder / f"{file_name(shard)}.json"

    def _temporary(self, shard: str) -> Path:
        return self.folder / f"{file_name(shard)}.new"


def _set_aside(path: Path) -> None:
    """Keep a file that is no record for a person."""
    with contextlib.suppress(OSError):
        path.replace(path.with_suffix(".unreadable"))


def _padded(record: Record, by: int) -> bytes:
    """Encode a record with `by` blanks behind it, which are nothing to JSON."""
    data = msgspec.json.encode(record)
    return data.ljust(len(data) + by)


def _read_plain(path: Path) -> bytes:
    """Read a file that may be anything: a pipe would never end, nor would a device."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("it is no plain file")
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise ValueError(f"it has more than {MOST_BYTES} bytes")
    return data


def _checked(record: Record, path: Path) -> Record:
    """Refuse a record that cannot be true, whoever wrote it.

    Raises:
        ValueError: it says why.
    """
    state = record.state
    if path.name != f"{file_name(record.shard)}.json":
        raise ValueError(f"it is of shard {record.shard!r}, and a record of that has another name")
    if not 1 < record.process.pid <= MOST_PID:
        raise ValueError(f"no process has the pid {record.process.pid}")
    if any(_subject(part) != _subject(record) for part in (record.spec, state)):
        raise ValueError(
            f"it is of {launch_name(*_subject(record))}, what was asked for of {launch_name(*_subject(record.spec))} "
            f"and its state of {launch_name(*_subject(state))}"
        )
    believed = sane(state)
    # Long words are cut elsewhere and make no record false: what an agent wrote itself must never be refused here.
    for field in _BELIEVED:
        if getattr(believed, field) != (found := getattr(state, field)):
            raise ValueError(f"the {field} of its state cannot be {found!r:.100}")
    if state.phase in _LISTENING and state.port is None:
        raise ValueError(f"its engine is {state.phase} and listens nowhere")
    return record


def _subject(part: Record | ShardSpec | ShardState) -> tuple[str, Generation]:
    return part.shard, part.generation


def _decoded(path: Path) -> Record | Later:
    data = _read_plain(path)
    version = msgspec.json.decode(data, type=_Version).version
    if version <= VERSION:
        return _checked(msgspec.json.decode(data, type=Record), path)
    name = unquote(path.stem)
    try:
        head = msgspec.json.decode(data, type=_Head)
    except msgspec.DecodeError:
        return Later(path=str(path), version=version, shard=name)
    return Later(
        path=str(path), version=version, shard=head.shard, generation=head.generation, process=head.process
    )


def _write(path: Path, data: bytes) -> None:
    """Write over what the file holds, so that blocks it has already are used again."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.truncate()
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
