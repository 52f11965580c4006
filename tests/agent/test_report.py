"""What a node says of itself."""

from collections.abc import Callable
from pathlib import Path

from llmgw.agent.discovery.disks import Disks
from llmgw.agent.discovery.engines import EngineProbe
from llmgw.agent.discovery.gpus.probe import GpuProbe
from llmgw.agent.discovery.route import Server
from llmgw.agent.report import Identity, Reporter

SERVER = Server("127.0.0.1", 9)


def reporter(
    tmp_path: Path,
    *,
    engines: dict[str, str] | None = None,
    root: Path = Path("/"),
    changed: Callable[[], None] | None = None,
    **identity: object,
) -> Reporter:
    given = {"node": "n1"} | identity
    probe = EngineProbe(engines or {}, launcher=Path("/none"), known=("llama.cpp",), own=None)
    made = Identity(**given)  # type: ignore[arg-type] # a test names fields of Identity
    gpus = GpuProbe(tmp_path, set, root=root)
    return Reporter(made, Disks({"state": tmp_path}), probe, gpus, root=root, changed=changed)


async def test_the_address_is_where_the_route_to_the_server_begins(tmp_path: Path) -> None:
    said = await reporter(tmp_path).introduction(SERVER)

    assert said.address == "127.0.0.1"


async def test_a_configured_address_wins(tmp_path: Path) -> None:
    node = reporter(tmp_path, address="10.0.0.7", labels={"rack": "b2"}, pool="big")

    said = await node.introduction(SERVER)

    assert (said.address, said.pool, said.labels) == ("10.0.0.7", "big", {"rack": "b2"})
    assert node.address() == "10.0.0.7"


async def test_a_node_without_engines_says_that_it_has_none(tmp_path: Path) -> None:
    node = reporter(tmp_path)
    await node.probe_engines()

    said = await node.introduction(SERVER)

    assert said.engines == ()


async def test_memory_and_disks_go_with_every_heartbeat_and_engines_only_when_they_changed(
    tmp_path: Path,
) -> None:
    program = tmp_path / "llama-server"
    node = reporter(tmp_path, engines={"llama.cpp": str(program)})
    await node.probe_engines()
    said = await node.introduction(SERVER)
    same = await node.heartbeat()
    program.write_text("not a program")
    await node.probe_engines()
    changed = await node.heartbeat()
    again = await node.heartbeat()

    assert "there is no file" in ((said.engines or ())[0].problem or "")
    assert same.engines is None
    assert same.memory is not None
    assert (same.memory.total_bytes or 0) > 0
    assert [f.holds for f in same.filesystems or ()] == [("state",)]
    assert "cannot be started" in ((changed.engines or ())[0].problem or "")
    assert again.engines is None
