import os
from pathlib import Path

import pytest
from fakes.agent import FakeAgent
from fakes.scripted_engine import FakeEngine
from msgspec.structs import replace

from llmgw.agent.preflight import Plan, look
from llmgw.core.fleet.shards import Claim, Gang
from llmgw.core.units import GIB


async def test_an_adapter_sees_the_first_bytes_of_the_weights(tmp_path: Path) -> None:
    agent = FakeAgent(tmp_path)

    await look(agent.spec(), agent.home, agent.weights)

    engine = agent.home.engines["fake"]
    assert isinstance(engine, FakeEngine)
    assert engine.head == b"GGUF"


def _folder_engine(agent: FakeAgent) -> FakeEngine:
    engine = agent.home.engines["fake"]
    assert isinstance(engine, FakeEngine)
    engine.takes_folders = True
    return engine


async def test_a_folder_that_holds_a_whole_model_is_as_good_as_a_file(tmp_path: Path) -> None:
    agent, folder = FakeAgent(tmp_path), tmp_path / "qwen"
    engine = _folder_engine(agent)
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"")
    with (folder / "model.safetensors").open("wb") as file:
        file.truncate(GIB)

    plan = await look(agent.spec(), agent.home, folder)

    assert isinstance(plan, Plan)
    assert engine.head == b""
    assert plan.limit_s == pytest.approx(agent.home.timings.starting_limit_s(GIB), abs=0.1)


async def test_a_folder_that_lacks_a_file_of_its_weights_is_refused(tmp_path: Path) -> None:
    agent, folder = FakeAgent(tmp_path), tmp_path / "qwen"
    _folder_engine(agent)
    folder.mkdir()
    (folder / "config.json").write_text("{}")

    refused = await look(agent.spec(), agent.home, folder)

    assert refused == (
        f"weights folder {folder} on node n1 is not whole: wanted config.json and all files of its weights"
    )


async def test_an_adapter_is_told_what_the_process_has_of_its_node(tmp_path: Path) -> None:
    agent = FakeAgent(tmp_path)
    gang = Gang(addresses=("127.0.0.1", "127.0.0.1"), port=0)

    await look(
        replace(agent.spec(), claim=Claim(gpus=("GPU-1",)), rank=1, gang=gang), agent.home, agent.weights
    )

    engine = agent.home.engines["fake"]
    assert isinstance(engine, FakeEngine)
    assert (engine.post.gpus, engine.post.rank, engine.post.gang, engine.post.interface) == (
        ("GPU-1",),
        1,
        gang,
        "lo",
    )


async def test_a_split_file_that_lacks_a_part_is_refused_and_names_it(tmp_path: Path) -> None:
    agent = FakeAgent(tmp_path)
    first = tmp_path / "m-00001-of-00003.gguf"
    first.write_bytes(b"GGUF")
    (tmp_path / "m-00002-of-00003.gguf").write_bytes(b"GGUF")

    refused = await look(agent.spec(), agent.home, first)

    assert refused == (
        f"weights file {first} on node n1 is the first of 3 parts; not beside it: m-00003-of-00003.gguf"
    )


async def test_the_time_to_start_goes_by_the_sizes_of_all_parts(tmp_path: Path) -> None:
    agent = FakeAgent(tmp_path)
    for number, size in ((1, GIB), (2, GIB // 2)):
        with (tmp_path / f"m-0000{number}-of-00002.gguf").open("wb") as file:
            file.truncate(size)

    plan = await look(agent.spec(), agent.home, tmp_path / "m-00001-of-00002.gguf")

    assert isinstance(plan, Plan)
    assert plan.limit_s == agent.home.timings.starting_limit_s(GIB * 3 // 2)


async def test_what_is_no_file_is_refused_without_waiting_for_it(tmp_path: Path) -> None:
    agent = FakeAgent(tmp_path)
    os.mkfifo(tmp_path / "pipe.gguf")

    refused = await look(agent.spec(), agent.home, tmp_path / "pipe.gguf")

    assert refused == (
        f"weights file {tmp_path / 'pipe.gguf'} on node n1 is a pipe, a socket or a device, wanted a file"
    )


async def test_an_empty_file_is_no_weights(tmp_path: Path) -> None:
    agent = FakeAgent(tmp_path)
    (tmp_path / "m.gguf").touch()

    refused = await look(agent.spec(), agent.home, tmp_path / "m.gguf")

    assert refused == f"weights file {tmp_path / 'm.gguf'} on node n1 is empty"
