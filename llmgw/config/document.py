"""YAML as plain data that remembers the line of every value, read strictly.

What it guarantees:

1. Every error says file, line, what was wanted and what was found.
2. The data are dicts with text keys, lists, text, whole numbers, numbers, true, false and None; nothing else.
   Words such as `no` and `on`, times such as `12:30` and dates stay text, for a label `country: no` is not false.
3. A key that comes twice in one mapping is an error, for the first would be lost in silence.
4. Aliases may not blow a small file up: what they expand to is counted.
"""

import re
from pathlib import Path
from typing import Any

import msgspec
import yaml

from llmgw.core.errors import BadInput, Problem

Place = tuple[str | int, ...]

MOST_BYTES = 8 * 1024**2
MOST_VALUES = 200_000
MOST_DEPTH = 64

_TAG = "tag:yaml.org,2002:"
_MERGE = f"{_TAG}merge"


class Document(msgspec.Struct, frozen=True):
    """What a file says.

    Attributes:
        name: the file, as errors call it.
        data: a mapping; empty for an empty file.
        lines: the line, from 1, on which each key or list item begins.
    """

    name: str
    data: dict[str, Any]
    lines: dict[Place, int]

    def line_of(self, path: Place) -> int:
        """Find the line of a place, or of the nearest place around it that exists."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


class _Loader(yaml.SafeLoader):
    """The safe loader with the plain scalars of YAML 1.2, made of nothing that surprises."""

    yaml_implicit_resolvers = {}  # noqa: RUF012 # declared so by PyYAML, filled below


for _tag, _pattern, _first in (
    ("null", r"(?:~|null|Null|NULL|)\Z", ["~", "n", "N", ""]),
    ("bool", r"(?:true|True|TRUE|false|False|FALSE)\Z", list("tTfF")),
    ("int", r"[-+]?[0-9]{1,18}\Z", list("-+0123456789")),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]{1,3})?\Z", list("-+.0123456789")),
    ("merge", r"<<\Z", ["<"]),
):
    _Loader.add_implicit_resolver(f"{_TAG}{_tag}", re.compile(_pattern), _first)


def read_yaml(path: str | Path) -> Document:
    """Read a YAML file whose root is a mapping.

    Raises:
        BadInput: it cannot be read, is not YAML, or is not such a mapping; the message names file and line.
    """
    try:
        with open(path, "rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror or error}") from error
    return parse_yaml(content, str(path))


def parse_yaml(content: bytes, name: str) -> Document:
    """Read YAML from bytes; `name` is what errors call them.

    Raises:
        BadInput: as `read_yaml`.
    """
    if len(content) > MOST_BYTES:
        raise BadInput(f"{name}: larger than {MOST_BYTES // 1024**2} MiB, which no file of ours is")
    root = _compose(_decoded(content, name), name)
    if root is None or (root.tag == f"{_TAG}null" and not root.value):
        return Document(name, {}, {})
    if not isinstance(root, yaml.MappingNode):
        raise BadInput(f"{name}:{_line(root)}: wanted a mapping (key: value lines), found {_kind(root)}")
    builder = _Builder(name)
    return Document(name, builder.mapping(root, (), 1), builder.lines)


def _decoded(content: bytes, name: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        found = f"byte 0x{content[error.start]:02x}"
        raise BadInput(f"{name}:{line}: wanted UTF-8 text, found {found}; save the file as UTF-8") from error


def _compose(text: str, name: str) -> yaml.Node | None:
    try:
        return yaml.compose(text, Loader=_Loader)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise BadInput(
            f"{name}:{line}: wanted text, found the control character {error.character!r}"
        ) from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line if mark is not None else 0
        raise BadInput(f"{name}:{line + 1}: {_syntax(error, text, line)}") from error
    except RecursionError as error:
        raise BadInput(f"{name}: nested too deeply to be read") from error


def _syntax(error: yaml.MarkedYAMLError, text: str, line: int) -> str:
    shown = text.splitlines()[line : line + 1]
    indent = re.match(r"\s*", shown[0]) if shown else None
    if indent is not None and "\t" in indent[0]:
        return "a tab indents this line; indent with spaces"
    said = ", ".join(part for part in (error.context, error.problem) if part)
    hint = ""
    if "mapping values are not allowed" in said:
        hint = "; indent this line as its neighbours are, or quote a value that has ': ' in it"
    return f"not YAML: {said}{hint}"


class _Builder:
    """Makes data out of nodes and notes their lines."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lines: dict[Place, int] = {}
        self.values = 0

    def mapping(self, node: yaml.MappingNode, path: Place, depth: int) -> dict[str, Any]:
        own: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE:
                for key, value in self._merged(value_node, path, depth).items():
                    merged.setdefault(key, value)
                continue
            key = self._key(key_node)
            if key in own:
                first = self.lines[(*path, key)]
                raise self._error(
                    key_node, f"the key {key!r} comes twice here, first on line {first}; keep one"
                )
            self.lines[(*path, key)] = _line(key_node)
            own[key] = self._value(value_node, (*path, key), depth)
        return merged | own

    def _merged(self, node: yaml.Node, path: Place, depth: int) -> dict[str, Any]:
        sources = node.value if isinstance(node, yaml.SequenceNode) else [node]
        merged: dict[str, Any] = {}
        for source in sources:
            if not isinstance(source, yaml.MappingNode):
                raise self._error(node, f"'<<' wants a mapping to take over, found {_kind(source)}")
            self._count(source, depth)
            # What the mapping says itself stands on its own lines, whichever of the two comes first.
            before = dict(self.lines)
            for key, value in self.mapping(source, path, depth + 1).items():
                merged.setdefault(key, value)
            self.lines |= before
        return merged

    def _key(self, node: yaml.Node) -> str:
        if not isinstance(node, yaml.ScalarNode):
            raise self._error(node, f"wanted a key, found {_kind(node)}; quote text that begins with {{ or [")
        return str(node.value)

    def _value(self, node: yaml.Node, path: Place, depth: int) -> Any:
        self._count(node, depth)
        if isinstance(node, yaml.MappingNode) and node.tag == f"{_TAG}map":
            return self.mapping(node, path, depth + 1)
        if isinstance(node, yaml.SequenceNode) and node.tag == f"{_TAG}seq":
            for i, item in enumerate(node.value):
                self.lines[(*path, i)] = _line(item)
            return [self._value(item, (*path, i), depth + 1) for i, item in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode) and node.tag in _SCALARS:
            return _SCALARS[node.tag](node.value)
        raise self._error(node, f"the tag {node.tag.replace(_TAG, '!!')!r} means nothing here; leave it out")

    def _count(self, node: yaml.Node, depth: int) -> None:
        self.values += 1
        if self.values > MOST_VALUES:
            raise self._error(
                node, f"the aliases expand this file to more than {MOST_VALUES} values; write fewer"
            )
        if depth > MOST_DEPTH:
            raise self._error(node, f"nested more than {MOST_DEPTH} deep, or an alias that contains itself")

    def _error(self, node: yaml.Node, message: str) -> BadInput:
        return BadInput(f"{self.name}:{_line(node)}: {message}")


_SCALARS: dict[str, Any] = {
    f"{_TAG}str": str,
    f"{_TAG}merge": str,
    f"{_TAG}null": lambda text: None,
    f"{_TAG}bool": lambda text: text.lower() == "true",
    f"{_TAG}int": int,
    f"{_TAG}float": float,
}


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _kind(node: yaml.Node) -> str:
    if isinstance(node, yaml.MappingNode):
        return "a mapping"
    return "a list" if isinstance(node, yaml.SequenceNode) else repr(node.value)


def problems_text(document: Document, problems: list[Problem] | tuple[Problem, ...]) -> str:
    """Show each problem as `FILE:LINE: place: message`, in the order of the file."""
    shown = sorted(problems, key=lambda problem: document.line_of(problem.path))
    return "\n".join(f"{document.name}:{document.line_of(p.path)}: {p}" for p in shown)
