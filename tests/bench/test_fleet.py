"""The simulated agents of the bench: what they say is what the codec reads, and they come back as agents do."""

import sys
from pathlib import Path

from fakes.hub import FakeHub

sys.path.append(str(Path(__file__).parents[2] / "bench"))

from fleet.agent import BINARY, PING, Agent, Counts, _first_frame
from fleet.said import BEAT_BYTES, PER_MODEL, PROFILE, catalog, heartbeats, register

from llmgw.core.fleet.catalog import read_catalog
from llmgw.wire.codec import from_agent
from llmgw.wire.frames import Heartbeat, Register


def test_heartbeats_are_as_long_as_promised_and_differ() -> None:
    said = heartbeats()
    frames = [from_agent(data) for data in said]

    assert all(BEAT_BYTES <= len(data) < 2 * BEAT_BYTES for data in said)
    assert all(isinstance(frame, Heartbeat) and len(frame.gpus or ()) == 8 for frame in frames)
    assert len(set(said)) == len(said)


def test_what_the_nodes_run_is_what_the_catalog_wants() -> None:
    nodes = 4 * PER_MODEL

    wanted, problems = read_catalog(catalog(nodes), ["llama.cpp"])
    frames = [from_agent(register(number, serving=True)) for number in range(nodes)]

    assert wanted is not None, problems
    shards = [shard for frame in frames if isinstance(frame, Register) for shard in frame.said.shards]
    runs = {(shard.model, shard.ordinal) for shard in shards}
    assert runs == {(model.name, ordinal) for model in wanted.models for ordinal in range(model.replicas)}
    assert {shard.fingerprint for shard in shards} == {PROFILE.fingerprint()}
    assert {model.profiles[0].fingerprint() for model in wanted.models} == {PROFILE.fingerprint()}


def test_frames_of_a_server_are_taken_one_by_one_however_they_come() -> None:
    read = bytearray(b"\x89\x02hi" + b"\x82\x7e\x01\x00" + b"x" * 256 + b"\x82")

    taken = [_first_frame(read), _first_frame(read), _first_frame(read)]

    assert taken == [(PING, b"hi"), (BINARY, b"x" * 256), None]
    assert read == b"\x82"


async def test_an_agent_registers_beats_and_comes_back_after_the_server_was_away() -> None:
    counts = Counts()
    async with FakeHub() as hub:
        agent = Agent(("127.0.0.1", hub.port), register(7, serving=False), counts, lambda: 0.1, number=7)
        agent.dial()
        await hub.until(lambda: len(hub.of(Heartbeat)) >= 2)
        await hub.close()
        await hub.open()
        await hub.until(lambda: len(hub.of(Register)) == 2)
        agent.end()

    assert [frame.said.node for frame in hub.of(Register)] == ["node-00007"] * 2
    assert counts.lost == 1
    assert counts.beats >= 2
