"""Read the header of a GGUF file from its first bytes alone, whatever those bytes are.

A file begins with "GGUF", its version, the numbers of its tensors and of its pairs; then come the pairs of key and
value, the descriptions of the tensors, and the tensors themselves (little endian, versions 2 and 3).

1. Nothing raises: a header that is no header is an `Unreadable` with the reason, one that the bytes do not reach the
   end of is a `More` with how many there must be.
2. Every length is checked before it is believed, and no header is longer than MOST_BYTES: a file that was made to be
   endless ends here. Lists of lists are allowed by the format and unknown in models; they are not followed.
3. Only what says something of the model is kept. A tokenizer's lists are passed over, since they are nine tenths of a
   header; of them only their length is known.
"""

import struct
from collections.abc import Iterator

import msgspec

HEAD_BYTES = 1024**2
"""How much of a file is worth handing over where only its first keys count."""
MOST_BYTES = 64 * 1024**2
"""The longest header that is read; those of models with the largest vocabularies take 20 MiB."""
MOST_LAYERS = 4096
"""Lists of numbers up to this length are kept: they say something of each layer."""

_MAGIC = b"GGUF"
_START = struct.Struct("<4sIQQ")
_LENGTH = struct.Struct("<Q")
_KIND = struct.Struct("<I")
_STRING, _ARRAY = 8, 9
# Types of single numbers, by their code.
_NUMBERS = {
    kind: struct.Struct("<" + letter)
    for kind, letter in
    {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}.items()
}  # fmt: skip
_MOST_DIMENSIONS = 4

BLOCKS: dict[int, tuple[int, int]] = {
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 9: (32, 40),
    10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 15: (256, 292), 16: (256, 66),
    17: (256, 74), 18: (256, 98), 19: (256, 50), 20: (32, 18), 21: (256, 110), 22: (256, 82), 23: (256, 136),
    24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8), 28: (1, 8), 29: (256, 56), 30: (1, 2), 34: (256, 54),
    35: (256, 66), 39: (32, 17), 40: (64, 36), 41: (128, 18), 42: (64, 18),
}  # fmt: skip
"""Numbers in a block and bytes of it, by the type of a tensor (ggml.h of b11434)."""


class Listed(msgspec.Struct, frozen=True):
    """A list that was passed over, and how long it is."""

    count: int


Value = int | float | str | bool | tuple[int | float | bool, ...] | Listed


class Tensor(msgspec.Struct, frozen=True):
    """One tensor; `size_bytes` is None when its type is not known here."""

    name: str
    dimensions: tuple[int, ...]
    size_bytes: int | None


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """All of a header that says something of the model; `size_bytes` is its own length."""

    version: int
    values: dict[str, Value]
    tensors: tuple[Tensor, ...]
    size_bytes: int


class More(msgspec.Struct, frozen=True):
    """The header goes on: no less than the first `needed_bytes` of the file must be there."""

    needed_bytes: int


class Unreadable(msgspec.Struct, frozen=True):
    """It is no header that can be read; `reason` says why."""

    reason: str


class _Short(Exception):
    """The bytes end at, or before, the needed one."""

    def __init__(self, needed: int) -> None:
        super().__init__(needed)
        self.needed = needed


class _Bad(Exception):
    """What cannot be believed."""


def read_header(head: bytes | bytearray | memoryview) -> Header | More | Unreadable:
    """Read a whole header from the first bytes of a file.

    Returns:
        The header, or how many bytes it takes at least, or why it cannot be read.
    """
    try:
        version, tensors, pairs, at = _start(head)
        values = {}
        for _ in range(pairs):
            key, value, at = _pair(head, at)
            values[key] = value
        found = []
        for _ in range(tensors):
            tensor, at = _tensor(head, at)
            found.append(tensor)
        return Header(version=version, values=values, tensors=tuple(found), size_bytes=at)
    except _Short as short:
        if short.needed > MOST_BYTES:
            return Unreadable(f"its header is longer than {MOST_BYTES // 1024**2} MiB, which no model's is")
        return More(short.needed)
    except _Bad as bad:
        return Unreadable(str(bad))


def values(head: bytes) -> Iterator[tuple[str, Value]]:
    """Yield each key with its value, as far as `head` reaches and makes sense."""
    try:
        _, _, pairs, at = _start(head)
        for _ in range(pairs):
            key, value, at = _pair(head, at)
            yield key, value
    except (_Short, _Bad):
        return


def pooling(head: bytes) -> int | None:
    """Find how the model turns its tokens' vectors into one; None when the head names no way."""
    for key, value in values(head):
        if key.endswith(".pooling_type") and isinstance(value, int):
            return value
    return None


Head = bytes | bytearray | memoryview


def _start(head: Head) -> tuple[int, int, int, int]:
    """Read what a file begins with: version, tensors, pairs, and where the pairs begin."""
    if bytes(head[:4]) != _MAGIC[: len(head)]:
        raise _Bad(f"wanted a file that begins with GGUF, found {bytes(head[:4])!r}")
    if len(head) < _START.size:
        raise _Short(_START.size)
    _, version, tensors, pairs = _START.unpack_from(head)
    if version not in (2, 3):
        swapped = int.from_bytes(version.to_bytes(4, "little"), "big")
        what = "big-endian GGUF" if swapped in (2, 3) else f"GGUF version {version}"
        raise _Bad(f"wanted GGUF version 2 or 3 (little endian), found {what}")
    # A pair takes 13 bytes at least and a tensor 24, so these counts are of a header that is too long.
    if pairs * 13 + tensors * 24 > MOST_BYTES:
        raise _Bad(f"wanted a header of a model, found one of {pairs} keys and {tensors} tensors")
    return version, tensors, pairs, _START.size


def _pair(head: Head, at: int) -> tuple[str, Value, int]:
    key, at = _text(head, at)
    kind, at = _one(head, at, _KIND)
    value, at = _value(head, at, kind, key)
    return key, value, at


def _value(head: Head, at: int, kind: int, key: str) -> tuple[Value, int]:
    if kind == _STRING:
        return _text(head, at)
    if kind == _ARRAY:
        return _list(head, at, key)
    if kind not in _NUMBERS:
        raise _Bad(f"key {key[:80]!r} is of type {kind}, which GGUF does not have")
    number: int | float
    number, at = _one(head, at, _NUMBERS[kind])
    return number, at


def _list(head: Head, at: int, key: str) -> tuple[Value, int]:
    kind, at = _one(head, at, _KIND)
    count, at = _one(head, at, _LENGTH)
    if kind == _STRING:
        return Listed(count), _past_texts(head, at, count)
    if kind not in _NUMBERS:
        raise _Bad(f"key {key[:80]!r} is a list of type {kind}, which no model has")
    form = _NUMBERS[kind]
    end = at + form.size * count
    _within(head, end)
    if count > MOST_LAYERS:
        return Listed(count), end
    return tuple(number for (number,) in form.iter_unpack(head[at:end])), end


def _past_texts(head: Head, at: int, count: int) -> int:
    """Pass over `count` texts. A vocabulary has 260,000: nothing is looked at but their lengths."""
    if at + 8 * count > MOST_BYTES:
        raise _Short(at + 8 * count)
    length = _LENGTH.unpack_from
    last = len(head) - _LENGTH.size
    for left in range(count, 0, -1):
        if at > last:
            # Each that is left takes its length at least.
            raise _Short(at + 8 * left)
        at += 8 + length(head, at)[0]
    _within(head, at)
    return at


def _tensor(head: Head, at: int) -> tuple[Tensor, int]:
    name, at = _text(head, at)
    count, at = _one(head, at, _KIND)
    if count > _MOST_DIMENSIONS:
        raise _Bad(f"tensor {name[:80]!r} has {count} dimensions; {_MOST_DIMENSIONS} is the most")
    dimensions = []
    for _ in range(count):
        width, at = _one(head, at, _LENGTH)
        dimensions.append(width)
    kind, at = _one(head, at, _KIND)
    _, at = _one(head, at, _LENGTH)
    return Tensor(name, tuple(dimensions), _size(kind, dimensions)), at


def _size(kind: int, dimensions: list[int]) -> int | None:
    if kind not in BLOCKS:
        return None
    numbers, size = BLOCKS[kind]
    count = 1
    for width in dimensions:
        count *= width
    return -(-count // numbers) * size


def _text(head: Head, at: int) -> tuple[str, int]:
    length, at = _one(head, at, _LENGTH)
    end = at + length
    _within(head, end)
    return bytes(head[at:end]).decode(errors="replace"), end


def _one(head: Head, at: int, form: struct.Struct) -> tuple[int, int]:
    end = at + form.size
    _within(head, end)
    (number,) = form.unpack_from(head, at)
    return number, end


def _within(head: Head, end: int) -> None:
    if end > len(head):
        raise _Short(end)
