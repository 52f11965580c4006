import random
import tracemalloc
from collections.abc import Callable

import msgspec
import pytest
import zstandard
from fakes.frames import FROM_AGENT, FROM_SERVER
from hypothesis import given
from hypothesis import strategies as st

from llmgw.core.errors import FrameError
from llmgw.core.fleet.weights import Holding
from llmgw.wire import codec
from llmgw.wire.codec import (
    COMPRESS_ABOVE_BYTES,
    LARGEST_BYTES,
    UnknownFrame,
    encode,
    from_agent,
    from_server,
)
from llmgw.wire.frames import Heartbeat, LogsReply, Register

SAMPLES = [encode(frame) for frame in (*FROM_AGENT.values(), *FROM_SERVER.values())]


def _packed(payload: bytes) -> bytes:
    return bytes([codec.ZSTD]) + zstandard.ZstdCompressor().compress(payload)


def _broken(decode: Callable[[bytes], object], data: bytes) -> str:
    with pytest.raises(FrameError) as caught:
        decode(data)
    return str(caught.value)


def _hostile(chance: random.Random) -> bytes:
    """Random bytes, a cut frame, a frame with bytes changed, or something packed that is none."""
    sample = bytearray(chance.choice(SAMPLES))
    kind = chance.randrange(5)
    if kind == 0:
        return chance.randbytes(chance.randrange(64))
    if kind == 1:
        return bytes(sample[: chance.randrange(len(sample))])
    if kind == 2:
        for _ in range(chance.randrange(1, 8)):
            sample[chance.randrange(len(sample))] = chance.randrange(256)
        return bytes(sample)
    if kind == 3:
        return _packed(chance.randbytes(chance.randrange(512)))
    return bytes([chance.randrange(2)]) + chance.randbytes(chance.randrange(256))


def test_a_small_frame_is_sent_plain_and_a_large_one_compressed() -> None:
    small = LogsReply(request_id=1, lines=("x",))
    large = LogsReply(request_id=1, lines=("x" * COMPRESS_ABOVE_BYTES,))

    assert encode(small)[0] == codec.PLAIN
    assert encode(large)[0] == codec.ZSTD
    assert len(encode(large)) < COMPRESS_ABOVE_BYTES
    assert from_agent(encode(large)) == large


def test_a_frame_over_the_limit_is_not_sent() -> None:
    frame = LogsReply(request_id=1, lines=("x" * LARGEST_BYTES,))

    with pytest.raises(FrameError, match="is over the limit"):
        encode(frame)


def test_an_unknown_tag_comes_back_as_a_value_with_a_bounded_name() -> None:
    payload = msgspec.msgpack.encode({"type": "telepathy" * 100, "depth": [[[1]]]})

    frame = from_agent(bytes([codec.PLAIN]) + payload)

    assert frame == UnknownFrame(("telepathy" * 100)[:64])


def test_a_frame_of_the_other_direction_is_unknown_to_this_side() -> None:
    assert from_agent(encode(FROM_SERVER["welcome"])) == UnknownFrame("welcome")
    assert from_server(encode(FROM_AGENT["heartbeat"])) == UnknownFrame("heartbeat")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "an empty frame"),
        (b"\x07abc", "a frame begins with 7, wanted 0 (plain) or 1 (zstd)"),
        (b"\x00", "is not msgpack"),
        (b"\x00\xc1", "is not msgpack"),
        (b"\x01not zstd", "is not zstd"),
        (b"\x00" + msgspec.msgpack.encode({"type": "ack"}), "does not fit its type"),
        (b"\x00" + msgspec.msgpack.encode({"type": 5}), "does not fit its type"),
        (b"\x00" + msgspec.msgpack.encode([1, 2, 3]), "does not fit its type"),
        (b"\x00" + b"\x91" * 100_000, "does not fit its type"),
        (b"\x00" + b"x" * LARGEST_BYTES, "is over the limit"),
    ],
)
def test_what_is_no_frame_is_an_error_that_says_why(data: bytes, said: str) -> None:
    assert said in _broken(from_agent, data)
    assert said in _broken(from_server, data)


def test_deep_nesting_in_an_unknown_field_is_an_error_and_not_a_crash() -> None:
    deep = b"\x82" + msgspec.msgpack.encode("type") + msgspec.msgpack.encode("heartbeat")
    deep += msgspec.msgpack.encode("more") + b"\x91" * 200_000

    assert "is not msgpack" in _broken(from_agent, b"\x00" + deep)


def test_a_string_that_is_not_utf8_is_an_error() -> None:
    data = encode(LogsReply(request_id=1, lines=("abcdef",))).replace(b"abcdef", b"ab\xff\xfeef")

    assert "a frame of" in _broken(from_agent, data)


def test_a_bomb_is_refused_before_it_fills_memory() -> None:
    bomb = _packed(bytes(64 * LARGEST_BYTES))
    tracemalloc.start()

    said = _broken(from_agent, bomb)

    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert said == f"a frame unpacks to more than {LARGEST_BYTES} bytes"
    assert peak < 4 * LARGEST_BYTES


@pytest.mark.parametrize("payload_bytes", [2000, codec.COMPRESS_ABOVE_BYTES * 600])
def test_a_packed_frame_of_any_length_is_read_whether_it_says_its_length_or_not(payload_bytes: int) -> None:
    frame = LogsReply(request_id=1, lines=("x" * payload_bytes,))
    payload = msgspec.msgpack.encode(frame)
    silent = zstandard.ZstdCompressor(write_content_size=False).compress(payload)

    assert from_agent(encode(frame)) == frame
    assert from_agent(bytes([codec.ZSTD]) + silent) == frame


@pytest.mark.parametrize("said_bytes", [1, LARGEST_BYTES + 1, 2**62])
def test_a_frame_that_lies_about_its_length_is_refused(said_bytes: int) -> None:
    # The header of a zstd frame whose content size has eight bytes, in front of one raw block of two bytes.
    lying = b"\x28\xb5\x2f\xfd\xe0" + said_bytes.to_bytes(8, "little") + b"\x11\x00\x00ab"

    assert "a frame" in _broken(from_agent, bytes([codec.ZSTD]) + lying)


def test_a_frame_that_wants_a_larger_window_than_the_limit_is_refused() -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=27, compression_level=1)
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    wide = packer.compress(b"x") + packer.flush()

    assert "is not zstd" in _broken(from_agent, bytes([codec.ZSTD]) + wide)


def test_a_promised_array_that_never_comes_takes_no_memory() -> None:
    head = b"\x82" + msgspec.msgpack.encode("type") + msgspec.msgpack.encode("logs-reply")
    endless = head + msgspec.msgpack.encode("lines") + b"\xdd\xff\xff\xff\xff"
    tracemalloc.start()

    _broken(from_agent, b"\x00" + endless)

    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**20


def test_ten_thousand_hostile_byte_strings_give_an_error_or_a_frame_and_nothing_else() -> None:
    chance = random.Random(20300101)
    outcomes = {"frame": 0, "error": 0}

    for _ in range(10_000):
        data = _hostile(chance)
        for decode in (from_agent, from_server):
            try:
                decode(data)
                outcomes["frame"] += 1
            except FrameError:
                outcomes["error"] += 1

    assert outcomes["frame"] > 100
    assert outcomes["error"] > 10_000


@given(st.binary(max_size=300))
def test_any_bytes_give_an_error_or_a_frame(data: bytes) -> None:
    for decode in (from_agent, from_server):
        try:
            assert decode(data) is not None
        except FrameError:
            continue


def test_what_was_not_said_differs_from_an_empty_list() -> None:
    silent, empty = Heartbeat(), Heartbeat(engines=())

    assert from_agent(encode(silent)).engines is None
    assert from_agent(encode(empty)).engines == ()


def test_a_register_of_a_large_node_is_far_below_the_limit() -> None:
    frame = FROM_AGENT["register"]
    assert isinstance(frame, Register)
    said = msgspec.structs.replace(frame.said, shards=frame.said.shards * 1000)

    data = encode(Register(said=said))

    assert len(data) < LARGEST_BYTES // 100
    assert from_agent(data) == Register(said=said)


def test_what_is_no_text_is_replaced_and_never_keeps_a_frame_back() -> None:
    weights = (Holding(path="/srv/\udcff.gguf", size_bytes=4), Holding(path="/srv/ä.gguf"))

    frame = from_agent(encode(Heartbeat(weights=weights)))

    assert isinstance(frame, Heartbeat)
    assert frame.weights == (Holding(path="/srv/?.gguf", size_bytes=4), Holding(path="/srv/ä.gguf"))
