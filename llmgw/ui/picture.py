"""What a page shows, in fragments, and what is different since an earlier look at it.

A page is a fixed frame around parts and lists. A part is one element with an id of its own; a list is an element that
holds such elements in an order that may change. What is shown is a value: a fragment is rendered again only when its
value is another one, whoever looks at the page and however many do.
"""

from collections.abc import Callable, Iterator, Mapping, Sized
from itertools import chain
from typing import Any

import msgspec
from markupsafe import Markup

Render = Callable[[str, str, Any], str]
"""Renders a fragment from its template, the id of its element and its value."""


class Fragment(msgspec.Struct, frozen=True):
    """One element of a page.

    Attributes:
        id: of the element, unique in the page.
        value: all that its template needs; equal values look alike.
    """

    id: str
    template: str
    value: Any


def unless(rows: Sized | None, text: str) -> str | None:
    """Give the value of a part that says that a list is empty; None when it is not, or nobody knows it."""
    return None if rows is None or len(rows) else text


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """All that a page shows at one moment.

    Attributes:
        lists: elements by the id of what holds them.
    """

    title: str
    parts: tuple[Fragment, ...] = ()
    lists: Mapping[str, tuple[Fragment, ...]] = {}

    def fragments(self) -> Iterator[Fragment]:
        """Give every fragment."""
        return chain(self.parts, *self.lists.values())


class Patch(msgspec.Struct, frozen=True, kw_only=True):
    """What makes an earlier look at a page the present one.

    Attributes:
        parts: HTML by the id of the element that it replaces, or that is new in a list.
        lists: ids of the elements of each list whose order or number changed.
    """

    revision: str
    title: str
    parts: dict[str, str]
    lists: dict[str, tuple[str, ...]]


class Picture:
    """The latest look at one page.

    Attributes:
        revision: names this very look, for `since`.
    """

    def __init__(self, render: Render, name: str) -> None:
        """Take how fragments are rendered.

        Args:
            name: tells this picture from every other one, those of earlier starts of the server included.
        """
        self._render = render
        self._name = name
        self._count = 0
        self._title = ""
        self._values: dict[str, Fragment] = {}
        self._html: dict[str, str] = {}
        self._changed: dict[str, int] = {}
        self._lists: dict[str, tuple[str, ...]] = {}
        self._ordered: dict[str, int] = {}

    @property
    def revision(self) -> str:
        """The name of the present look."""
        return f"{self._name}.{self._count}"

    def take(self, shown: Shown) -> Iterator[None]:
        """Take what is shown now: a step for each fragment that is rendered; all of it counts after the last step.

        A large page takes long enough that others want a turn in between.
        """
        count = self._count + 1
        values = {fragment.id: fragment for fragment in shown.fragments()}
        html: dict[str, str] = {}
        changed: dict[str, int] = {}
        for id, fragment in values.items():
            same = self._values.get(id) == fragment
            html[id] = self._html[id] if same else self._render(fragment.template, id, fragment.value)
            changed[id] = self._changed[id] if same or self._html.get(id) == html[id] else count
            if not same:
                yield
        lists = {id: tuple(row.id for row in rows) for id, rows in shown.lists.items()}
        ordered = {
            id: self._ordered[id] if self._lists.get(id) == rows else count for id, rows in lists.items()
        }
        self._values, self._html, self._changed = values, html, changed
        self._lists, self._ordered = lists, ordered
        if shown.title != self._title or count in {*changed.values(), *ordered.values()}:
            self._title, self._count = shown.title, count

    def since(self, revision: str | None) -> Patch | None:
        """Say what is different since a revision; everything since one of another picture, None when nothing is."""
        if revision == self.revision:
            return None
        name, _, number = (revision or "").rpartition(".")
        seen = int(number) if name == self._name and number.isdecimal() else 0
        return Patch(
            revision=self.revision,
            title=self._title,
            parts={id: self._html[id] for id, count in self._changed.items() if count > seen},
            lists={id: rows for id, rows in self._lists.items() if self._ordered[id] > seen},
        )

    @property
    def title(self) -> str:
        """The title of the page."""
        return self._title

    def part(self, id: str) -> Markup:
        """Give the HTML of a part, for the frame of the page."""
        return Markup(self._html[id])

    def rows(self, id: str) -> Markup:
        """Give the HTML of all elements of a list, for the frame of the page."""
        return Markup("".join(self._html[row] for row in self._lists[id]))
