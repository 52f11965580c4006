"""Read plain data (from YAML or JSON) into a struct, naming every thing that is wrong with its place.

msgspec.convert stops at the first fault and knows no near misses; a person who wrote a file by hand wants all of
them at once, each with the key that was probably meant. Rules:

1. A struct is walked key by key: unknown keys are problems that name the nearest known key, missing ones are named.
2. Sequences and mappings of structs are walked item by item, so that a path reaches the leaf that is wrong.
3. Anything else is a leaf: msgspec converts it, and its message is shown behind the path.
4. A leaf annotated with `Size` or `Time` takes `24g` or `15s`.
"""

import difflib
import types
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import UNSET, Meta, UnsetType

from llmgw.core.errors import Problem
from llmgw.core.units import parse_size, parse_time

T = TypeVar("T")
Path = tuple[str | int, ...]

Size = Annotated[int, Meta(extra={"unit": "size"})]
"""Bytes; written as `24g`, `512m` or a plain number."""
Time = Annotated[float, Meta(extra={"unit": "time"})]
"""Seconds; written as `15s`, `5m`, `24h`."""

_KINDS = {
    dict: "a mapping",
    list: "a list",
    str: "text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
}


def nearest(word: str, known: list[str]) -> str:
    """Suggest the known word that `word` was probably meant to be: ` (did you mean 'x'?)`, or what is known."""
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(sorted(known))}"


def read_struct(data: object, kind: type[T], path: Path = ()) -> tuple[T | None, list[Problem]]:
    """Read `data` as a `kind` (a msgspec Struct).

    Returns:
        The struct and no problem, or None and every problem found.
    """
    problems: list[Problem] = []
    value = _struct(data, kind, path, problems)
    return (None, problems) if problems else (value, [])


def _struct(data: object, kind: Any, path: Path, problems: list[Problem]) -> Any:
    if data is None and not any(f.required for f in msgspec.structs.fields(kind)):
        data = {}
    if not isinstance(data, dict):
        problems.append(Problem(path, f"wanted a mapping, found {_shown(data)}"))
        return None
    fields = {f.encode_name: f for f in msgspec.structs.fields(kind)}
    for key in data:
        if key not in fields:
            problems.append(
                Problem((*path, str(key)), f"unknown key {str(key)!r}; {nearest(str(key), list(fields))}")
            )
    values: dict[str, Any] = {}
    for name, field in fields.items():
        if name in data:
            values[field.name] = _value(data[name], field.type, (*path, name), problems)
        elif field.required:
            problems.append(Problem(path, f"{name!r} is missing"))
    # A struct is only made of parts that are right; its own checks run in the caller.
    return None if problems else kind(**values)


def _value(data: object, kind: Any, path: Path, problems: list[Problem]) -> Any:
    kind, unit = _unwrap(kind)
    if unit is not None:
        return _quantity(data, unit, path, problems)
    if get_origin(kind) in (types.UnionType, Union):
        options = [a for a in get_args(kind) if a not in (type(None), UnsetType)]
        if data is None and type(None) in get_args(kind):
            return None
        if len(options) == 1:
            return _value(data, options[0], path, problems)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return _struct(data, kind, path, problems)
    origin, args = get_origin(kind), get_args(kind)
    if origin in (tuple, list) and args:
        if not isinstance(data, list | tuple):
            problems.append(Problem(path, f"wanted a list, found {_shown(data)}"))
            return UNSET
        items = [_value(item, args[0], (*path, i), problems) for i, item in enumerate(data)]
        return tuple(items) if origin is tuple else items
    if origin is dict:
        if not isinstance(data, dict):
            problems.append(Problem(path, f"wanted a mapping, found {_shown(data)}"))
            return UNSET
        return {str(key): _value(item, args[1], (*path, str(key)), problems) for key, item in data.items()}
    return _leaf(data, kind, path, problems)


def _unwrap(kind: Any) -> tuple[Any, str | None]:
    if get_origin(kind) is Annotated:
        for meta in get_args(kind)[1:]:
            if isinstance(meta, Meta) and meta.extra and "unit" in meta.extra:
                return get_args(kind)[0], meta.extra["unit"]
    return kind, None


def _quantity(data: object, unit: str, path: Path, problems: list[Problem]) -> Any:
    # A bare number is bytes; a bare time would leave its unit to guessing, so only 0 passes.
    number = data if isinstance(data, int | float) and not isinstance(data, bool) else None
    if number is not None and (number == 0 or (unit == "size" and 0 < number < 2**62)):
        return int(number) if unit == "size" else float(number)
    read = (parse_size if unit == "size" else parse_time)(data) if isinstance(data, str) else None
    if read is None:
        wanted = "a size such as 512m or 24g" if unit == "size" else "a time such as 15s, 5m or 24h"
        problems.append(Problem(path, f"wanted {wanted}, found {_shown(data)}"))
        return UNSET
    return read


def _leaf(data: object, kind: Any, path: Path, problems: list[Problem]) -> Any:
    if isinstance(data, int) and abs(data) >= 2**63:
        problems.append(Problem(path, "wanted a number of at most 18 digits, found a longer one"))
        return UNSET
    if kind is float and isinstance(data, int) and not isinstance(data, bool):
        return float(data)
    if isinstance(data, str) and not _is_unicode(data):
        problems.append(
            Problem(path, f"wanted text, found {data!r}, which holds half a character; retype it")
        )
        return UNSET
    try:
        return msgspec.convert(data, kind)
    except msgspec.ValidationError as error:
        wanted = _KINDS.get(kind)
        message = f"wanted {wanted}, found {_shown(data)}" if wanted else str(error)
        problems.append(Problem(path, message))
        return UNSET


def _is_unicode(text: str) -> bool:
    """Tell whether the text can be written as UTF-8: YAML escapes can spell half a surrogate pair."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _shown(data: object) -> str:
    if data is None:
        return "nothing"
    if isinstance(data, dict | list):
        return _KINDS[type(data)]
    return f"{data!r}"
