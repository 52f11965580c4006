"""The rooms of a whole fleet, indexed so that a thousand of them are asked at once.

Guarantees:
1. It is a mapping of rooms by node id, and the index tells of every room just what asking that room alone would tell;
   it is only quicker. A property test compares the two.
2. Rows are in the order of node ids, so that the lowest row of a set is the first by name.
3. A room that is put in stands in the index at once. It may differ from the one before only in what claims change:
   less memory, less of GPUs and disk, more copies.
4. What one node is promised on a shared filesystem is promised for every node that shares it.

Groups (which rooms have this label?), columns (which have so much memory?) and facts (what has each?) are made when
they are first asked for and kept up from then on: a plan asks for few of them, and most plans place nothing.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from llmgw.core.fleet.snapshot import Fleet
from llmgw.core.placement.column import Column, rows_in, set_of
from llmgw.core.placement.disk import DiskRoom, with_promises
from llmgw.core.placement.room import Room, coming, copied, room_of
from llmgw.core.placement.sharing import shared_device, with_what_is_shared

KeysOf = Callable[[Room], Iterable[Hashable]]
"""Tells in which groups of one kind a room is; it is the name of that kind too, so it is hashable and equal to its
like."""
NumberOf = Callable[[Room], float]
"""Tells a room's number in one column; it is the name of that column too, so it is hashable and equal to its like."""
_CHANGED_BY_CLAIMS: frozenset[KeysOf] = frozenset({copied, coming})
T = TypeVar("T")


class Rooms(Mapping[str, Room]):
    """Rooms by the id of their node."""

    def __init__(self, rooms: Iterable[Room] = ()) -> None:
        """Take the rooms, each of a node of its own."""
        self.rows = sorted(rooms, key=lambda room: room.node.id)
        self.every = (1 << len(self.rows)) - 1
        self._row_of = {room.node.id: row for row, room in enumerate(self.rows)}
        self._groups: dict[KeysOf, dict[Hashable, int]] = {}
        self._columns: dict[NumberOf, Column] = {}
        self._facts: dict[Callable[[Room], Any], list[Any]] = {}

    def __getitem__(self, node_id: str) -> Room:
        """Give the room of a node."""
        return self.rows[self._row_of[node_id]]

    def __iter__(self) -> Iterator[str]:
        """List node ids in their order."""
        return iter(self._row_of)

    def __len__(self) -> int:
        """Count the rooms."""
        return len(self.rows)

    def __setitem__(self, node_id: str, room: Room) -> None:
        """Put in what became of a room that is there already."""
        row = self._row_of[node_id]
        before = self.rows[row].disk
        self._put(row, room)
        if room.disk is not None and room.disk is not before:
            self._promise_to_sharers(row, room.disk)

    def having(self, keys_of: KeysOf, key: Hashable) -> int:
        """Give the rows that are in one group."""
        return self._grouped(keys_of).get(key, 0)

    def names(self, keys_of: KeysOf) -> Iterable[Hashable]:
        """Name the groups of one kind."""
        return self._grouped(keys_of)

    def _grouped(self, keys_of: KeysOf) -> dict[Hashable, int]:
        groups = self._groups.get(keys_of)
        if groups is None:
            rows: dict[Hashable, list[int]] = {}
            for row, room in enumerate(self.rows):
                for key in keys_of(room):
                    rows.setdefault(key, []).append(row)
            groups = self._groups[keys_of] = {key: set_of(of_key) for key, of_key in rows.items()}
        return groups

    def column(self, number_of: NumberOf) -> Column:
        """Give one number of every room."""
        column = self._columns.get(number_of)
        if column is None:
            column = self._columns[number_of] = Column([number_of(room) for room in self.rows])
        return column

    def facts(self, of: Callable[[Room], T]) -> Sequence[T]:
        """Give something of every room, by row; `of` is its name, as a NumberOf is."""
        facts = self._facts.get(of)
        if facts is None:
            facts = self._facts[of] = [of(room) for room in self.rows]
        return facts

    def _put(self, row: int, room: Room) -> None:
        self.rows[row] = room
        for keys_of in _CHANGED_BY_CLAIMS & self._groups.keys():
            groups = self._groups[keys_of]
            for key in keys_of(room):
                groups[key] = groups.get(key, 0) | 1 << row
        for number_of, column in self._columns.items():
            column.put(row, number_of(room))
        for of, facts in self._facts.items():
            facts[row] = of(room)

    def _promise_to_sharers(self, row: int, disk: DiskRoom) -> None:
        device = shared_device(self.rows[row])
        if device is None:
            return
        for other in rows_in(self.having(_shared_devices, device)):
            theirs = self.rows[other].disk
            if other != row and theirs is not None:
                self._put(other, replace(self.rows[other], disk=with_promises(theirs, disk.promised)))


def _shared_devices(room: Room) -> tuple[str, ...]:
    device = shared_device(room)
    return () if device is None else (device,)


def rooms_of(fleet: Fleet) -> Rooms:
    """Work out the room of every node."""
    return Rooms(with_what_is_shared([room_of(node) for node in fleet.nodes.values()]))
