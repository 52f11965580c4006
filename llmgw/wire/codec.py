"""Bytes of the link and back: one byte of encoding, then msgpack, compressed with zstd above 1 KiB.

A frame of an unknown tag is not an error: a newer peer may know more. It comes back as a value that the caller logs
once. Everything else that cannot be read is a FrameError; the caller logs it, drops the frame and lives.
"""

from datetime import datetime
from typing import Any

import msgspec
import zstandard

from llmgw.core.errors import FrameError
from llmgw.wire.frames import FromAgent, FromServer

PLAIN = 0
ZSTD = 1
COMPRESS_ABOVE_BYTES = 1024
LARGEST_BYTES = 16 * 1024 * 1024
"""No frame is larger than this, compressed or not: a register of a large node is well under 1 MiB."""

_PIECE_BYTES = 128 * 1024
_AT_ONCE_BYTES = 256 * 1024

# Made once, for making one takes longer than a frame. Neither may be used by two threads at once: a link is its loop's.
_compressor = zstandard.ZstdCompressor(level=3)
_decompressor = zstandard.ZstdDecompressor(max_window_size=LARGEST_BYTES)
_encoder = msgspec.msgpack.Encoder()
_from_agent: msgspec.msgpack.Decoder[FromAgent] = msgspec.msgpack.Decoder(FromAgent)
_from_server: msgspec.msgpack.Decoder[FromServer] = msgspec.msgpack.Decoder(FromServer)


class _Tagged(msgspec.Struct):
    type: str


_tag = msgspec.msgpack.Decoder(_Tagged)


class UnknownFrame(msgspec.Struct, frozen=True):
    """A frame that this version does not know, by its tag."""

    tag: str


def encode(frame: FromAgent | FromServer) -> bytes:
    """Encode one frame.

    Raises:
        FrameError: it is larger than LARGEST_BYTES.
    """
    try:
        payload = _encoder.encode(frame)
    except UnicodeEncodeError:
        # Names of files and of processes may hold what is no text; a node must not fall silent because of one.
        payload = _encoder.encode(_as_text(msgspec.to_builtins(frame, builtin_types=(bytes, datetime))))
    if len(payload) > LARGEST_BYTES:
        raise FrameError(
            f"a {type(frame).__name__} of {len(payload)} bytes is over the limit of {LARGEST_BYTES}"
        )
    if len(payload) <= COMPRESS_ABOVE_BYTES:
        return bytes([PLAIN]) + payload
    return bytes([ZSTD]) + _compressor.compress(payload)


def from_agent(data: bytes) -> FromAgent | UnknownFrame:
    """Decode what an agent sent.

    Raises:
        FrameError: the bytes are no frame; the message says what is wrong with them.
    """
    frame: FromAgent | UnknownFrame = _decode(data, _from_agent)
    return frame


def from_server(data: bytes) -> FromServer | UnknownFrame:
    """Decode what a server sent.

    Raises:
        FrameError: the bytes are no frame; the message says what is wrong with them.
    """
    frame: FromServer | UnknownFrame = _decode(data, _from_server)
    return frame


def _as_text(value: Any) -> Any:
    """Put a sign in the place of what no text can hold, wherever it is."""
    match value:
        case str():
            return value.encode(errors="replace").decode()
        case dict():
            return {_as_text(key): _as_text(one) for key, one in value.items()}
        case list() | tuple():
            return [_as_text(one) for one in value]
        case _:
            return value


def _decode(data: bytes, decoder: msgspec.msgpack.Decoder[Any]) -> Any:
    payload = _payload(data)
    try:
        return decoder.decode(payload)
    except msgspec.ValidationError as error:
        tag = _unknown_tag(payload, decoder)
        if tag is not None:
            return UnknownFrame(tag)
        raise FrameError(f"a frame of {len(data)} bytes does not fit its type: {error}") from error
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError, OverflowError) as error:
        raise FrameError(f"a frame of {len(data)} bytes is not msgpack: {error}") from error


def _payload(data: bytes) -> bytes:
    if not data:
        raise FrameError("an empty frame")
    if len(data) > LARGEST_BYTES:
        raise FrameError(f"a frame of {len(data)} bytes is over the limit of {LARGEST_BYTES}")
    if data[0] == PLAIN:
        return data[1:]
    if data[0] != ZSTD:
        raise FrameError(f"a frame begins with {data[0]}, wanted {PLAIN} (plain) or {ZSTD} (zstd)")
    try:
        return _unpacked(data[1:])
    except zstandard.ZstdError as error:
        raise FrameError(f"a frame of {len(data)} bytes is not zstd: {error}") from error


def _unpacked(packed: bytes) -> bytes:
    says_bytes = zstandard.frame_content_size(packed)
    if says_bytes > LARGEST_BYTES:
        raise _unpacks_to_much()
    if 0 <= says_bytes <= _AT_ONCE_BYTES:
        # Frames that agents send all the time: a reader would cost more than what it reads.
        return _decompressor.decompress(packed, max_output_size=_AT_ONCE_BYTES)
    return _unpacked_in_pieces(packed)


def _unpacked_in_pieces(packed: bytes) -> bytes:
    # A hostile frame may claim any size, and any window to hold while it is unpacked: it is unpacked piece by piece,
    # and never past the limit.
    reader = zstandard.ZstdDecompressor(max_window_size=LARGEST_BYTES).stream_reader(packed)
    pieces, count = [], 0
    while piece := reader.read(_PIECE_BYTES):
        pieces.append(piece)
        count += len(piece)
        if count > LARGEST_BYTES:
            raise _unpacks_to_much()
    return b"".join(pieces)


def _unpacks_to_much() -> FrameError:
    return FrameError(f"a frame unpacks to more than {LARGEST_BYTES} bytes")


def _unknown_tag(payload: bytes, decoder: msgspec.msgpack.Decoder[Any]) -> str | None:
    try:
        tag = _tag.decode(payload).type
    except (msgspec.DecodeError, RecursionError):
        return None
    known = {t.__struct_config__.tag for t in decoder.type.__args__}
    return None if tag in known else tag[:64]
