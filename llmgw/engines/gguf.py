"""Read what the head of a GGUF file says about its model, from its first bytes alone.

A file begins with "GGUF", its version, two counts, and then pairs of key and value (little endian). What concerns
the model stands before the tokenizer's long lists, so that the first MiB of a file holds it. Bytes that end early,
or are no such head at all, say nothing: that is no fault here, the engine itself will name it.
"""

import struct
from collections.abc import Iterator

HEAD_BYTES = 1024**2
"""How much of a file is worth handing over."""

_MAGIC = b"GGUF"
_STRING, _ARRAY = 8, 9
# Types of single numbers, by their code.
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}

Value = int | float | str | None


def values(head: bytes) -> Iterator[tuple[str, Value]]:
    """Yield each key with its value, as far as `head` reaches; None stands for a list, which is passed over."""
    try:
        magic, version, _, pairs = struct.unpack_from("<4sIQQ", head)
        if magic != _MAGIC or version < 2:
            return
        at = struct.calcsize("<4sIQQ")
        for _ in range(pairs):
            key, at = _string(head, at)
            kind, at = _number(head, at, "I")
            value, at = _value(head, at, int(kind))
            yield key, value
    except struct.error:
        return


def pooling(head: bytes) -> int | None:
    """Find how the model turns its tokens' vectors into one; None when the head names no way."""
    for key, value in values(head):
        if key.endswith(".pooling_type") and isinstance(value, int):
            return value
    return None


def _value(head: bytes, at: int, kind: int) -> tuple[Value, int]:
    if kind == _STRING:
        return _string(head, at)
    if kind == _ARRAY:
        return None, _past_list(head, at)
    return _number(head, at, _NUMBERS.get(kind))


def _past_list(head: bytes, at: int) -> int:
    kind, at = _number(head, at, "I")
    count, at = _number(head, at, "Q")
    if kind in _NUMBERS:
        return _within(head, at + struct.calcsize("<" + _NUMBERS[int(kind)]) * int(count))
    if kind != _STRING:
        # Lists of lists are allowed and unknown in models; bytes made to nest without end are not followed.
        raise struct.error("a list of something that this reader does not know")
    for _ in range(int(count)):
        _, at = _string(head, at)
    return at


def _string(head: bytes, at: int) -> tuple[str, int]:
    length, at = _number(head, at, "Q")
    end = _within(head, at + int(length))
    return head[at:end].decode(errors="replace"), end


def _within(head: bytes, end: int) -> int:
    if end > len(head):
        raise struct.error("the head ends within a value")
    return end


def _number(head: bytes, at: int, code: str | None) -> tuple[int | float, int]:
    if code is None:
        raise struct.error("a type that this reader does not know")
    (number,) = struct.unpack_from("<" + code, head, at)
    return number, at + struct.calcsize("<" + code)
