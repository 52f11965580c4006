"""A filesystem of a few MiB in memory, that can be filled up and shown to a process as read-only."""

import contextlib
import os
import subprocess
from pathlib import Path
from typing import Self

from faults.tally import Missing

MIB = 1024**2
READ_ONLY = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'


class Mount:
    """A tmpfs of `mib` MiB at `path`; leaving the `with` block takes it away.

    Raises:
        Missing: this user may not mount.
    """

    def __init__(self, path: Path, mib: int = 4) -> None:
        if os.geteuid() != 0:
            raise Missing("mounting a filesystem needs root")
        self.path = path
        self._mib = mib

    def __enter__(self) -> Self:
        self.path.mkdir()
        size = ("-o", f"size={self._mib}m")
        subprocess.run(["mount", "-t", "tmpfs", *size, "llmgw-bench", str(self.path)], check=True, timeout=30)
        return self

    def __exit__(self, *_: object) -> None:
        # Lazily: a process that is ended a moment later must not keep it for ever.
        subprocess.run(["umount", "--lazy", str(self.path)], check=True, timeout=30)

    def fill(self) -> None:
        """Write until nothing more fits, not even a directory entry's worth."""
        with contextlib.suppress(OSError), (self.path / "filler").open("wb", buffering=0) as file:
            while file.write(bytes(4096)):
                pass

    def empty(self) -> None:
        """Make room again."""
        (self.path / "filler").unlink()

    def read_only(self) -> tuple[str, ...]:
        """Give the words before a command that sees it read-only; for all others it stays as it is."""
        return ("unshare", "--mount", "--propagation", "private", "sh", "-c", READ_ONLY, str(self.path))
