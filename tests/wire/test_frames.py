"""Golden files: bytes that older versions sent still decode to what they meant.

A frame without a golden file fails here and leaves the file behind, to be looked at and committed; a file that is
there is never written over.
"""

import typing
from pathlib import Path

import msgspec
import pytest
from fakes.frames import FROM_AGENT, FROM_SERVER, SPEC

from llmgw.wire import frames
from llmgw.wire.codec import encode, from_agent, from_server

GOLDEN = Path(__file__).parent / "golden"
EVERY = {**FROM_AGENT, **FROM_SERVER}


def _decode(name: str, data: bytes) -> object:
    return from_agent(data) if name in FROM_AGENT else from_server(data)


@pytest.mark.parametrize("name", EVERY)
def test_bytes_of_the_golden_file_decode_to_the_frame_that_was_sent(name: str) -> None:
    path = GOLDEN / f"{name}.bin"

    if not path.exists():
        path.write_bytes(encode(EVERY[name]))
        pytest.fail(f"{path.name} was missing and has been made; look at it and commit it")

    assert _decode(name, path.read_bytes()) == EVERY[name]


@pytest.mark.parametrize("name", EVERY)
def test_what_is_encoded_today_decodes_to_the_same_frame(name: str) -> None:
    assert _decode(name, encode(EVERY[name])) == EVERY[name]


def test_every_frame_has_a_golden_file() -> None:
    tags = {kind.__struct_config__.tag for kind in typing.get_args(frames.FromAgent | frames.FromServer)}

    covered = {type(frame).__struct_config__.tag for frame in EVERY.values()}

    assert covered == tags


def test_every_field_of_every_frame_beyond_its_first_version_has_a_default() -> None:
    # A field without a default breaks every older peer; these were there from the start.
    required = {
        kind.__struct_config__.tag: {f.name for f in msgspec.structs.fields(kind) if f.required}
        for kind in typing.get_args(frames.FromAgent | frames.FromServer)
    }

    assert required == {
        "register": {"said"},
        "heartbeat": set(),
        "shard-status": {"state"},
        "logs-reply": {"request_id"},
        "ack": {"seq"},
        "welcome": {"epoch"},
        "ask-register": set(),
        "start-shard": {"spec"},
        "stop-shard": {"shard", "generation"},
        "drain-shard": {"shard", "generation"},
        "remove-weights": set(),
        "provision": {"engine", "version"},
        "logs-request": {"request_id"},
        "log-lines": {"follow_id"},
        "follow-logs": {"follow_id"},
        "taken-logs": {"follow_id"},
        "stop-follow": {"follow_id"},
        "look-for": set(),
        "weights-removed": {"request_id"},
    }


def test_fields_that_a_newer_peer_added_are_passed_over_at_every_depth() -> None:
    spec = msgspec.to_builtins(SPEC)
    spec["colour"] = "red"
    spec["profile"]["taste"] = {"sweet": [1, 2]}
    payload = msgspec.msgpack.encode({"type": "start-shard", "seq": 1, "spec": spec, "smell": None})

    frame = from_server(b"\0" + payload)

    assert frame == frames.StartShard(seq=1, spec=SPEC)
