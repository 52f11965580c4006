import struct

from hypothesis import given
from hypothesis import strategies as st

from llmgw.engines.gguf import Listed, pooling, values


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
