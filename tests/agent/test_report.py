"""What a node says of itself."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from fakes.waiting import until

from llmgw.agent.discovery.disks import Disks
from llmgw.agent.discovery.engines import LOOKING, EngineProbe
from llmgw.agent.discovery.gpus.probe import GpuProbe
from llmgw.agent.discovery.gpus.sighting import Sighting
from llmgw.agent.discovery.route import Server
from llmgw.agent.report import Identity, Reporter, gpus_text
from llmgw.core.fleet.hardware import EngineInstall, Gpu, Memory
from llmgw.core.fleet.weights import Holding

SERVER = Server("127.0.0.1", 9)


def reporter(
    tmp_path: Path,
    *,
    engines: dict[str, str] | None = None,
    root: Path = Path("/"),
    changed: Callable[[], None] | None = None,
    weights: Callable[[], tuple[Holding, ...] | None] = lambda: None,
    **identity: object,
) -> Reporter:
    given = {"node": "n1"} | identity
    probe = EngineProbe(engines or {}, launcher=Path("/none"), known=("llama.cpp",), own=None)
    made = Identity(**given)  # type: ignore[arg-type] # a test names fields of Identity
    gpus = GpuProbe(tmp_path, set, root=root)
    return Reporter(
        made, Disks({"state": tmp_path}), probe, gpus, root=root, changed=changed, weights=weights
    )


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


@pytest.mark.slow
async def test_an_engine_that_hangs_keeps_neither_the_node_nor_another_engine_waiting(tmp_path: Path) -> None:
    hangs, runs = tmp_path / "hangs", tmp_path / "runs"
    hangs.write_text("#!/bin/sh\nexec sleep 600\n")
    runs.write_text("#!/bin/sh\necho 'version: 9837 (b3fed31b9)'\n")
    for program in (hangs, runs):
        program.chmod(0o755)
    own = EngineInstall(engine="llama.cpp", form="llama-server", path=str(hangs))
    probe = EngineProbe({"llama.cpp": str(runs)}, launcher=Path("/none"), known=("llama.cpp",), own=own)
    node = Reporter(Identity(node="n1"), Disks({"state": tmp_path}), probe, GpuProbe(tmp_path, set))

    before = await node.introduction(SERVER)
    probing = asyncio.create_task(node.probe_engines())
    await until(lambda: node.installs()[0].problem is None, within_s=15)
    beat = await node.heartbeat()
    await node.looked(0.0)
    probing.cancel()
    await asyncio.gather(probing, return_exceptions=True)

    assert [(e.path, e.problem) for e in before.engines or ()] == [
        (str(runs), LOOKING),
        (str(hangs), LOOKING),
    ]
    assert [(e.path, e.problem, e.version) for e in beat.engines or ()] == [
        (str(runs), None, "b9837"),
        (str(hangs), LOOKING, None),
    ]


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


def a_card(root: Path, *, used: int = 0) -> None:
    device = root / "sys/class/drm/card0/device"
    device.mkdir(parents=True, exist_ok=True)
    files = {
        "vendor": "0x1002",
        "unique_id": "beef",
        "mem_info_vram_total": "100",
        "mem_info_vram_used": used,
    }
    for name, text in files.items():
        (device / name).write_text(f"{text}\n")


def a_port(root: Path, state: str) -> None:
    port = root / "sys/class/infiniband/mlx5_0/ports/1"
    port.mkdir(parents=True, exist_ok=True)
    (port / "state").write_text(f"{state}\n")


async def test_gpus_and_memory_go_with_every_heartbeat_as_they_are_now(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    a_card(tmp_path, used=10)
    node = reporter(tmp_path, root=tmp_path)
    said = await node.introduction(SERVER)
    a_card(tmp_path, used=90)
    (tmp_path / "proc/meminfo").write_text("MemTotal: 9 kB\nMemAvailable: 5 kB\n")

    beat = await node.heartbeat()

    assert [gpu.free_bytes for gpu in said.machine.gpus or ()] == [90]
    assert [gpu.free_bytes for gpu in beat.gpus or ()] == [10]
    assert beat.memory == Memory(total_bytes=9 * 1024, available_bytes=5 * 1024)


async def test_fabrics_go_with_a_heartbeat_only_when_they_changed(tmp_path: Path) -> None:
    a_port(tmp_path, "1: DOWN")
    node = reporter(tmp_path, root=tmp_path, fabrics={"ib-a": "mlx5_0"})
    said = await node.introduction(SERVER)
    same = await node.heartbeat()
    a_port(tmp_path, "4: ACTIVE")
    changed, again = await node.heartbeat(), await node.heartbeat()

    assert [fabric.attached for fabric in said.machine.fabrics or ()] == [False]
    assert [fabric.attached for fabric in changed.fabrics or ()] == [True]
    assert (same.fabrics, again.fabrics) == (None, None)


async def test_a_node_without_fabrics_says_so_once(tmp_path: Path) -> None:
    node = reporter(tmp_path)

    said, beat = await node.introduction(SERVER), await node.heartbeat()

    assert (said.machine.fabrics, beat.fabrics) == ((), None)


async def test_a_gpu_that_appears_or_goes_makes_the_node_introduce_itself_anew(tmp_path: Path) -> None:
    asked: list[str] = []
    node = reporter(tmp_path, root=tmp_path, changed=lambda: asked.append("again"))
    await node.heartbeat()
    await node.introduction(SERVER)
    await node.heartbeat()
    before = len(asked)
    a_card(tmp_path)
    await node.heartbeat()
    appeared = len(asked)
    said = await node.introduction(SERVER)
    a_card(tmp_path, used=50)
    await node.heartbeat()

    assert (before, appeared, len(asked)) == (0, 1, 1)
    assert [gpu.uuid for gpu in said.machine.gpus or ()] == ["GPU-beef"]


def test_gpus_are_told_in_one_line() -> None:
    lost = Gpu(uuid="GPU-2", problem="GPU is lost")

    assert gpus_text(Sighting()) == "none"
    assert gpus_text(Sighting(problem="mismatch")) == "none; mismatch"
    assert gpus_text(Sighting(gpus=(Gpu(uuid="GPU-1", name="H100"), lost))) == "H100, GPU-2 (GPU is lost)"


async def test_weights_go_with_a_heartbeat_only_when_they_changed_and_none_before_anybody_looked(
    tmp_path: Path,
) -> None:
    held: list[tuple[Holding, ...] | None] = [None]
    made = reporter(tmp_path, weights=lambda: held[-1])

    said = await made.introduction(SERVER)
    before = await made.heartbeat()
    held.append(())
    empty = await made.heartbeat()
    held.append((Holding(path="/m.gguf"),))
    found, again = await made.heartbeat(), await made.heartbeat()
    anew = await made.introduction(SERVER)

    assert (said.weights, before.weights) == (None, None)
    assert empty.weights == ()
    assert (found.weights, again.weights) == ((Holding(path="/m.gguf"),), None)
    assert anew.weights == (Holding(path="/m.gguf"),)
