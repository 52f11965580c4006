"""What the agent writes down of each engine, so that its successor can tell it from a stranger.

One small JSON file an engine, replaced whole: a reader sees the old record or the new one. A file that cannot be read
is set aside with its reason and hides no other. Fields are only ever added; `version` says what the writer knew.
"""

import contextlib
import os
from pathlib import Path

import msgspec

from llmgw.agent.processes import Identity
from llmgw.agent.state_dir import file_name
from llmgw.core.ids import Generation

VERSION = 1


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One engine process that was started and not yet seen to end."""

    version: int = VERSION
    shard: str
    generation: Generation
    process: Identity


class Records:
    """The records of one agent. Written by the supervisor only."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, record: Record) -> None:
        """Write a record, whole or not at all, and onto the disk before it returns.

        Raises:
            OSError: it cannot be written.
        """
        path = self._path(record.shard)
        temporary = path.with_suffix(".new")
        with temporary.open("wb") as file:
            file.write(msgspec.json.encode(record))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        self._sync()

    def remove(self, shard: str) -> None:
        """Forget a shard's record; one that is not there is fine."""
        with contextlib.suppress(FileNotFoundError):
            self._path(shard).unlink()

    def read(self) -> tuple[tuple[Record, ...], tuple[str, ...]]:
        """Read every record.

        Returns:
            The records, and one sentence for each file that is none; such a file is renamed and stays for a person.
        """
        records, problems = [], []
        for path in sorted(self._folder.glob("*.json")):
            try:
                records.append(msgspec.json.decode(path.read_bytes(), type=Record))
            except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                problems.append(f"record {path} cannot be read and is set aside: {error}")
                with contextlib.suppress(OSError):
                    path.replace(path.with_suffix(".unreadable"))
        return tuple(records), tuple(problems)

    def _path(self, shard: str) -> Path:
        return self._folder / f"{file_name(shard)}.json"

    def _sync(self) -> None:
        descriptor = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
