"""Filesystems that our directories lie on: one pool of bytes each, however many directories share it."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from llmgw.agent.patience import Looks
from llmgw.core.fleet.hardware import Filesystem

LIMIT_S = 2.0
"""A dead network filesystem never answers; after this many seconds its sizes are unknown."""

_SHARED = frozenset(
    {
        *(
            "nfs",
            "nfs4",
            "cifs",
            "smb3",
            "smbfs",
            "lustre",
            "ceph",
            "beegfs",
            "gpfs",
            "glusterfs",
            "9p",
            "virtiofs",
        ),
        *("afs", "panfs", "wekafs", "orangefs", "ocfs2", "gfs2"),
        *("fuse.ceph", "fuse.ceph-fuse", "fuse.glusterfs", "fuse.juicefs", "fuse.s3fs", "fuse.sshfs"),
        *("fuse.gcsfuse", "fuse.mount-s3", "fuse.rclone", "fuse.goofys", "fuse.beegfs"),
    }
)
_ESCAPE = re.compile(r"\\([0-7]{3})")


class Mount(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the kernel's table of mounts.

    Attributes:
        device: the kernel's number of the filesystem, the same however often it is mounted.
        source: what is mounted, e.g. "/dev/sdb1" or "filer:/export"; None for what has no name.
    """

    device: str
    point: str
    kind: str
    source: str | None = None


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """What a look at a directory gave; sizes None when it did not answer in time."""

    name: str
    path: str
    total_bytes: int | None = None
    free_bytes: int | None = None


def is_shared(kind: str) -> bool:
    """Tell whether a filesystem of this kind is one that several nodes may see."""
    return kind in _SHARED


def parse_mountinfo(text: str) -> tuple[Mount, ...]:
    """Read /proc/self/mountinfo; lines that are none are left out."""
    mounts = []
    for line in text.splitlines():
        fields, separator, behind = line.partition(" - ")
        words, kinds = fields.split(), behind.split()
        if separator and len(words) >= 5 and kinds:
            source = _unescape(kinds[1]) if len(kinds) > 1 and kinds[1] != "none" else None
            mount = Mount(device=words[2], point=_unescape(words[4]), kind=kinds[0], source=source)
            mounts.append(mount)
    return tuple(mounts)


def mount_of(path: str, mounts: tuple[Mount, ...]) -> Mount | None:
    """Find the mount that an absolute path lies on: the longest mount point, and of equal ones the latest."""
    found = None
    for mount in mounts:
        inside = path == mount.point or path.startswith(mount.point.rstrip("/") + "/")
        if inside and (found is None or len(mount.point) >= len(found.point)):
            found = mount
    return found


def group(looks: tuple[Look, ...], mounts: tuple[Mount, ...]) -> tuple[Filesystem, ...]:
    """Make one filesystem of all looks at one device, however often it is mounted."""
    found: dict[str, Filesystem] = {}
    for look in looks:
        mount = mount_of(look.path, mounts)
        if mount is None:
            continue
        before = found.get(mount.device)
        if before is not None:
            found[mount.device] = msgspec.structs.replace(before, holds=(*before.holds, look.name))
            continue
        found[mount.device] = Filesystem(
            mount=mount.point,
            device=mount.source,
            kind=mount.kind,
            total_bytes=look.total_bytes,
            free_bytes=look.free_bytes,
            shared=is_shared(mount.kind),
            holds=(look.name,),
        )
    return tuple(found.values())


def nearest(path: Path) -> Path:
    """Find the folder itself or, while it is not made yet, the nearest above it: on that filesystem it will lie."""
    return next((folder for folder in (path, *path.parents) if folder.exists()), path)


def show_room(path: Path) -> str:
    """Say in words which filesystem a directory lies on and how much of it is free. May block on a dead one."""
    try:
        mount = mount_of(os.path.realpath(path), _mounts() or ())
        sizes = os.statvfs(path)
    except OSError as error:
        return f"its filesystem says nothing: {error.strerror}"
    name = "the filesystem" if mount is None else f"filesystem {mount.point} ({mount.kind})"
    free = f"{sizes.f_bavail * sizes.f_frsize} of {sizes.f_blocks * sizes.f_frsize} bytes free"
    if sizes.f_files and not sizes.f_favail:
        free += " and no inode free"
    return f"{name} has {free}{' and is read-only' if sizes.f_flag & os.ST_RDONLY else ''}"


class Disks:
    """Looks at directories again and again, and never has two looks hanging at the same one."""

    def __init__(self, directories: Mapping[str, Path], *, root: Path = Path("/")) -> None:
        """Take absolute directories by what they hold, e.g. {"state": ..., "weights": ...}.

        Args:
            root: where /proc is.
        """
        self._directories = directories
        self._root = root
        self._looks = Looks()

    async def filesystems(self) -> tuple[Filesystem, ...] | None:
        """Read the filesystems now; a missing directory is skipped, None when the kernel's table cannot be read."""
        mounts = _mounts(self._root)
        if mounts is None:
            return None
        looks = [await self._look(name, path) for name, path in self._directories.items()]
        return group(tuple(look for look in looks if look is not None), mounts)

    async def _look(self, name: str, path: Path) -> Look | None:
        try:
            return await self._looks.within(LIMIT_S, name, lambda: _look(name, path))
        except TimeoutError:
            return Look(name=name, path=str(path))


def _mounts(root: Path = Path("/")) -> tuple[Mount, ...] | None:
    try:
        return parse_mountinfo((root / "proc/self/mountinfo").read_text(errors="replace"))
    except OSError:
        return None


def _look(name: str, path: Path) -> Look | None:
    try:
        sizes = os.statvfs(path)
        where = os.path.realpath(path)
    except OSError:
        return None
    # What only root may still write is not free for us.
    return Look(
        name=name,
        path=where,
        total_bytes=sizes.f_blocks * sizes.f_frsize,
        free_bytes=sizes.f_bavail * sizes.f_frsize,
    )


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda found: chr(int(found[1], 8)), text)
