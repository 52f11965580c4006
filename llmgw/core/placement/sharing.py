"""What nodes that share a filesystem have in common: the weights in it and the downloads promised on it.

A filesystem is known by its device ("filer:/models"). Two networks may each have a filer of that name, so weights
count only among nodes that are attached to one fabric, or that are all on none. Promises count among all who name the
device: at worst a download waits for one that goes elsewhere.
"""

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from llmgw.core.placement.disk import DiskRoom, with_promises
from llmgw.core.placement.room import Room

Reach = tuple[str, str | None]
"""A device, and the fabric it is reached over; None for nodes that are on none."""


def shared_device(room: Room) -> str | None:
    """Name the filesystem that a node fetches weights to, if it is one that it shares."""
    disk = room.disk
    return disk.filesystem.device if disk is not None and disk.filesystem.shared else None


def with_what_is_shared(rooms: list[Room]) -> list[Room]:
    """Let each room know of the weights and the downloads of those it shares a filesystem with."""
    sharing = [room for room in rooms if _shared_devices(room)]
    if not sharing:
        return rooms
    held, promised = _held(sharing), _promised(sharing)
    told = {room.node.id: _with(room, held, promised) for room in sharing}
    return [told.get(room.node.id, room) for room in rooms]


def _shared_devices(room: Room) -> list[str]:
    filesystems = room.node.machine.filesystems
    return [f.device for f in filesystems or () if f.shared and f.device is not None]


def _reaches(room: Room) -> list[Reach]:
    return [(device, fabric) for device in _shared_devices(room) for fabric in room.fabrics or (None,)]


def _held(rooms: Iterable[Room]) -> dict[Reach, set[str]]:
    found: dict[Reach, set[str]] = {}
    for room in rooms:
        for device, name in _held_on_shared(room):
            for fabric in room.fabrics or (None,):
                found.setdefault((device, fabric), set()).add(name)
    return found


def _held_on_shared(room: Room) -> Iterator[tuple[str, str]]:
    for held in room.node.weights or ():
        if held.shared and held.complete and held.device is not None:
            for name in (held.source, held.cache_name):
                if name is not None:
                    yield held.device, name


def _promised(rooms: Iterable[Room]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for room in rooms:
        device = shared_device(room)
        if device is not None and room.disk is not None:
            of_device = found.setdefault(device, {})
            for name, left in room.disk.promised.items():
                of_device[name] = max(left, of_device.get(name, 0))
    return found


def _with(room: Room, held: dict[Reach, set[str]], promised: dict[str, dict[str, int]]) -> Room:
    names = [held[reach] for reach in _reaches(room) if reach in held]
    if names:
        room = replace(room, holds=room.holds.union(*names))
    device = shared_device(room)
    if device is not None and promised[device]:
        assert isinstance(room.disk, DiskRoom)
        room = replace(room, disk=with_promises(room.disk, promised[device]))
    return room
