"""Logs by their names."""

from pathlib import Path

import pytest
from fakes.clock import FakeClock
from fakes.nodes import a_shard
from msgspec.structs import replace

from llmgw.agent.logs.jobs import Jobs
from llmgw.agent.logs.ring import Ring
from llmgw.agent.logs.sources import Source, Sources
from llmgw.agent.state_dir import StateDir
from llmgw.core.fleet.shards import Phase, ShardState


class _Node:
    """A state folder, and the shards that are there now."""

    def __init__(self, folder: Path) -> None:
        self.state_dir = StateDir(str(folder))
        self.state_dir.make()
        self.shards: tuple[ShardState, ...] = ()
        self.sources = Sources("n1", self.state_dir, Ring(), lambda: self.shards)

    def found(self, name: str) -> Source:
        source = self.sources.find(name)
        assert not isinstance(source, str), source
        return source


@pytest.fixture
def node(tmp_path: Path) -> _Node:
    return _Node(tmp_path)


def test_every_log_is_listed_the_agents_own_first_and_jobs_last(node: _Node) -> None:
    node.shards = (a_shard(),)
    node.state_dir.log_of("org/old:7b.1.0").write_text("words")
    node.state_dir.crash_of("gemma.0.0").write_text("words")
    (node.state_dir.logs / "ended.0.0.log.1").write_text("words")
    with Jobs(node.state_dir, FakeClock()).open("install:llama.cpp") as log:
        log.line("words")

    assert node.sources.names() == (
        "agent",
        "ended.0.0",
        "gemma.0.0",
        "gemma.0.0@crash",
        "org/old:7b.1.0",
        "install:llama.cpp",
    )


def test_each_name_finds_its_own_log(node: _Node) -> None:
    node.state_dir.log_of("m.0.0").write_text("engine\n")
    node.state_dir.crash_of("m.0.0").write_text("crash\n")
    with Jobs(node.state_dir, FakeClock()).open("fetch:0a1b") as log:
        log.line("download")

    assert node.found("m.0.0").tail(5) == ("engine",)
    assert node.found("m.0.0@crash").tail(5) == ("crash",)
    assert node.found("fetch:0a1b").tail(5)[0].endswith("download")
    assert node.found("agent").tail(5) == ()


def test_a_shard_that_waits_for_its_first_run_shows_the_one_before(node: _Node) -> None:
    (node.state_dir.logs / "m.0.0.log.1").write_text("last words\n")

    assert node.found("m.0.0").tail(5) == ("last words",)


@pytest.mark.parametrize("name", ["NOPE", "../agent.lock", "m.0.0@crash", "fetch:x", "install:../../x", "\0"])
def test_a_name_without_a_log_is_refused_with_the_names_there_are(node: _Node, name: str) -> None:
    node.state_dir.log_of("m.0.0").write_text("words")

    refusal = node.sources.find(name)

    assert refusal == f"no log source {name!r} on node n1; it has: agent, m.0.0"


def test_a_shard_that_has_written_nothing_says_how_it_is(node: _Node) -> None:
    node.shards = (replace(a_shard(phase=Phase.FAILED), reason="no such weights"),)

    assert node.found("gemma.0.0").tail(5) == ()
    assert node.sources.silence("gemma.0.0") == (
        "shard gemma.0.0 has written nothing; it is failed: no such weights"
    )
    assert node.sources.silence("agent") is None
