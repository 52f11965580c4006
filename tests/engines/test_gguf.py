import struct
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.core.fleet.model_shape import ModelShape
from llmgw.engines.gguf import Header, Listed, More, Tensor, Unreadable, pooling, read_header, values
from llmgw.engines.gguf_shape import read_shape


def string(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()


def pair(key: str, kind: int, value: bytes) -> bytes:
    return string(key) + struct.pack("<I", kind) + value


def head(*pairs: bytes, version: int = 3) -> bytes:
    return struct.pack("<4sIQQ", b"GGUF", version, 1, len(pairs)) + b"".join(pairs)


ARCHITECTURE = pair("general.architecture", 8, string("bert"))
POOLING = pair("bert.pooling_type", 4, struct.pack("<I", 2))
TAGS = pair("general.tags", 9, struct.pack("<IQ", 8, 2) + string("a") + string("b"))
SCORES = pair("tokenizer.ggml.scores", 9, struct.pack("<IQ", 6, 3) + struct.pack("<3f", 0, 1, 2))


def test_every_kind_of_value_is_read_and_lists_are_passed_over() -> None:
    whole = head(ARCHITECTURE, TAGS, SCORES, POOLING, pair("x.rope", 6, struct.pack("<f", 0.5)))

    assert list(values(whole)) == [
        ("general.architecture", "bert"),
        ("general.tags", Listed(2)),
        ("tokenizer.ggml.scores", (0.0, 1.0, 2.0)),
        ("bert.pooling_type", 2),
        ("x.rope", 0.5),
    ]


def test_lists_nested_without_end_are_not_followed() -> None:
    nested = pair("x.nested", 9, struct.pack("<IQ", 9, 1) * 80_000)

    assert list(values(head(ARCHITECTURE, nested))) == [("general.architecture", "bert")]


def test_a_list_longer_than_the_head_ends_the_reading() -> None:
    numbers = pair("x.numbers", 9, struct.pack("<IQ", 10, 2**64 - 1))

    assert list(values(head(numbers, POOLING))) == []


def test_a_head_without_the_key_names_no_pooling() -> None:
    assert pooling(head(ARCHITECTURE, TAGS)) is None


def test_a_pooling_that_is_no_number_is_no_pooling() -> None:
    assert pooling(head(pair("bert.pooling_type", 8, string("cls")))) is None


def test_a_head_that_ends_early_says_what_came_before() -> None:
    whole = head(ARCHITECTURE, POOLING)

    assert [key for key, _ in values(whole[:-2])] == ["general.architecture"]
    assert [key for key, _ in values(whole[:40])] == []


def test_what_is_no_head_says_nothing() -> None:
    assert list(values(b"")) == []
    assert list(values(b"PK\3\4" + bytes(60))) == []
    assert list(values(head(ARCHITECTURE, version=1))) == []
    assert list(values(head(pair("x", 77, b"")))) == []


@given(st.binary(max_size=200))
def test_no_bytes_break_it(rest: bytes) -> None:
    for _ in values(struct.pack("<4sIQQ", b"GGUF", 3, 1, 2**63) + rest):
        pass


# whole headers


def tensor(name: str, dimensions: tuple[int, ...], kind: int = 0) -> bytes:
    shape = struct.pack(f"<I{len(dimensions)}Q", len(dimensions), *dimensions)
    return string(name) + shape + struct.pack("<IQ", kind, 0)


def with_tensors(pairs: tuple[bytes, ...], *tensors: bytes) -> bytes:
    start = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(pairs))
    return start + b"".join(pairs) + b"".join(tensors)


WHOLE = with_tensors((ARCHITECTURE, TAGS, POOLING), tensor("a", (256, 3), 12), tensor("b", (5,)))


def test_a_whole_header_tells_its_values_the_sizes_of_its_tensors_and_its_own() -> None:
    found = read_header(WHOLE + b"data")

    assert isinstance(found, Header)
    assert found.values == {
        "general.architecture": "bert",
        "general.tags": Listed(2),
        "bert.pooling_type": 2,
    }
    assert found.tensors == (Tensor("a", (256, 3), 3 * 144), Tensor("b", (5,), 20))
    assert found.size_bytes == len(WHOLE)


def test_a_tensor_of_an_unknown_type_has_an_unknown_size() -> None:
    found = read_header(with_tensors((), tensor("a", (256,), 31)))

    assert isinstance(found, Header)
    assert found.tensors == (Tensor("a", (256,), None),)


@pytest.mark.parametrize("length", range(len(WHOLE)))
def test_a_header_that_is_cut_off_anywhere_says_how_many_bytes_it_takes_at_least(length: int) -> None:
    found = read_header(WHOLE[:length])

    assert isinstance(found, More)
    assert length < found.needed_bytes <= len(WHOLE)


def test_a_long_list_of_texts_asks_for_all_that_its_rest_takes_at_least() -> None:
    tokens = pair("tokens", 9, struct.pack("<IQ", 8, 1000) + string("") * 10)

    found = read_header(head(tokens))

    assert found == More(len(head(tokens)) + 990 * 8)


@pytest.mark.parametrize(
    ("bytes_of_it", "reason"),
    [
        (b"PK\3\4" + bytes(60), "begins with GGUF, found b'PK"),
        (head(version=1), "found GGUF version 1"),
        (struct.pack(">4sIQQ", b"GGUF", 3, 0, 0), "found big-endian GGUF"),
        (struct.pack("<4sIQQ", b"GGUF", 3, 2**63, 2**63), "keys and 9223372036854775808 tensors"),
        (head(pair("x", 77, b"")), "key 'x' is of type 77, which GGUF does not have"),
        (head(pair("x", 9, struct.pack("<IQ", 9, 1))), "key 'x' is a list of type 9, which no model has"),
        (head(pair("x", 9, struct.pack("<IQ", 8, 2**64 - 1))), "longer than 64 MiB"),
        (head(pair("x", 9, struct.pack("<IQ", 10, 2**61))), "longer than 64 MiB"),
        (head(struct.pack("<Q", 2**64 - 1)), "longer than 64 MiB"),
        (with_tensors((), string("t") + struct.pack("<I", 5)), "tensor 't' has 5 dimensions; 4 is the most"),
    ],
)
def test_what_cannot_be_believed_is_refused_with_the_reason(bytes_of_it: bytes, reason: str) -> None:
    found = read_header(bytes_of_it)

    assert isinstance(found, Unreadable)
    assert reason in found.reason


def test_a_vocabulary_of_a_quarter_of_a_million_is_passed_over_in_no_time() -> None:
    count = 262_144
    tokens = struct.pack("<IQ", 8, count) + b"".join(string(f"token{n}") for n in range(count))
    whole = with_tensors((pair("tokenizer.ggml.tokens", 9, tokens), POOLING))

    began = time.process_time()
    found = read_header(memoryview(whole))
    took_s = time.process_time() - began

    assert isinstance(found, Header)
    assert found.values == {"tokenizer.ggml.tokens": Listed(count), "bert.pooling_type": 2}
    # 30 ms where nothing else runs; a loop that made a text of each would take ten times as long.
    assert took_s < 0.2


@given(st.binary(max_size=300), st.integers(0, 4), st.integers(0, 4))
def test_whatever_follows_the_start_there_is_an_answer(rest: bytes, tensors: int, pairs: int) -> None:
    start = struct.pack("<4sIQQ", b"GGUF", 3, tensors, pairs)

    found = read_header(start + rest)

    if isinstance(found, Header):
        assert found.size_bytes <= len(start) + len(rest)
    elif isinstance(found, More):
        assert found.needed_bytes > len(start) + len(rest)
    else:
        assert found.reason


@given(st.integers(0, len(WHOLE) - 1), st.integers(0, 255))
def test_a_header_with_one_wrong_byte_is_read_or_refused_and_never_breaks_anything(
    at: int, byte: int
) -> None:
    broken = bytearray(WHOLE)
    broken[at] = byte

    assert isinstance(read_shape(broken), ModelShape | More | Unreadable)
