"""What a process is given of its node, and whether its rank can meet the others."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes.agent import FakeAgent
from msgspec.structs import replace

from llmgw.agent.discovery.gpus.sighting import Sighting
from llmgw.agent.gang import gang_problem, gpu_share, interface_of, port_problem, post_of
from llmgw.core.fleet.hardware import Gpu
from llmgw.core.fleet.shards import Claim, Gang, ShardSpec
from llmgw.core.units import GIB
from llmgw.engines.post import Post

GANG = Gang(addresses=("127.0.0.1", "127.0.0.1"), port=0, ports=(0, 0))


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        yield holder.getsockname()[1]


def _spec(agent: FakeAgent, rank: int = 0, gang: Gang | None = GANG, **profile: object) -> ShardSpec:
    return replace(agent.spec(**profile), rank=rank, gang=gang)


async def test_the_only_process_of_a_replica_is_given_its_gpus(tmp_path: Path) -> None:
    agent = FakeAgent(tmp_path)

    post = await post_of(replace(agent.spec(), claim=Claim(gpus=("GPU-1",))), agent.home)

    assert post == Post(gpus=("GPU-1",))


async def test_a_rank_is_given_its_place_and_the_interface_of_its_address(tmp_path: Path) -> None:
    agent = FakeAgent(tmp_path)

    post = await post_of(_spec(agent, rank=1), agent.home)

    assert post == Post(rank=1, gang=GANG, interface="lo")


def test_the_share_of_a_gpu_is_what_was_promised_of_its_memory(tmp_path: Path) -> None:
    gpus = (Gpu(uuid="GPU-1", total_bytes=80 * GIB), Gpu(uuid="GPU-2", total_bytes=10 * GIB))
    agent = FakeAgent(tmp_path, gpus=lambda: Sighting(gpus=gpus))
    claim = Claim(gpus=("GPU-1",), gpu_bytes=20 * GIB)

    asked = replace(agent.spec(gpus=1, min_gpu_memory_gb=20.0), claim=claim)
    left_to_the_engine = replace(agent.spec(gpus=1), claim=claim)

    assert gpu_share(asked, agent.home) == 0.25
    assert gpu_share(left_to_the_engine, agent.home) is None


def test_the_share_of_a_gpu_whose_memory_nobody_knows_is_left_to_the_engine(tmp_path: Path) -> None:
    agent = FakeAgent(tmp_path, gpus=lambda: Sighting(gpus=(Gpu(uuid="GPU-1"),)))
    claim = Claim(gpus=("GPU-1",), gpu_bytes=20 * GIB)

    assert gpu_share(replace(agent.spec(gpus=1, min_gpu_memory_gb=20.0), claim=claim), agent.home) is None


async def test_where_the_port_to_meet_at_is_taken_rank_zero_is_refused_and_says_by_whom(
    tmp_path: Path, taken: int
) -> None:
    agent, gang = FakeAgent(tmp_path), replace(GANG, port=taken)

    head, other = [await post_of(_spec(agent, rank, gang), agent.home) for rank in (0, 1)]

    assert isinstance(head, str)
    assert head.startswith(
        f"port {taken}, where the ranks of m.0 are to meet, is taken on node n1 by another process"
    )
    assert head.endswith("; the next try uses another")
    assert isinstance(other, Post)


async def test_where_the_port_of_another_rank_is_taken_that_rank_is_refused(
    tmp_path: Path, taken: int
) -> None:
    agent, gang = FakeAgent(tmp_path), replace(GANG, ports=(0, taken))

    head, other = [await post_of(_spec(agent, rank, gang), agent.home) for rank in (0, 1)]

    assert isinstance(head, Post)
    assert isinstance(other, str)


def test_an_address_that_is_not_of_this_machine_is_named(tmp_path: Path) -> None:
    problem = port_problem("198.51.100.7", 21016, "port 21016", "n1")

    assert (
        problem
        == "port 21016, cannot be used on 198.51.100.7, the address of node n1: Cannot assign requested address"
    )


def test_a_holder_that_nobody_may_see_is_unknown(taken: int) -> None:
    problem = port_problem("127.0.0.1", taken, "port", "n1", listening=lambda port: frozenset({None}))

    assert problem == "port, is taken on node n1 by another process (pid unknown); the next try uses another"


def _adapter(root: Path, state: str) -> None:
    port = root / "sys/class/infiniband/mlx5_0/ports/1"
    port.mkdir(parents=True)
    (port / "state").write_text(f"{state}\n")


@pytest.mark.parametrize(
    ("state", "problem"),
    [
        ("4: ACTIVE", None),
        ("1: DOWN", "node n1 is not on fabric ib: adapter mlx5_0: port 1 is DOWN"),
        (
            None,
            "node n1 is not on fabric ib: adapter mlx5_0: there is no adapter mlx5_0; there is none on this machine; "
            "correct fabrics in agent.yaml",
        ),
    ],
)
def test_an_adapter_that_is_not_on_its_network_any_more_is_named(
    tmp_path: Path, state: str | None, problem: str | None
) -> None:
    agent = FakeAgent(tmp_path)
    if state is not None:
        _adapter(tmp_path / "root", state)
    gang = replace(GANG, fabric="ib", adapters=("mlx5_0", "mlx5_9"))

    found = gang_problem(_spec(agent, 0, gang), gang, replace(agent.home, root=tmp_path / "root"))

    assert found == problem


def test_a_rank_beyond_those_that_were_named_is_refused(tmp_path: Path) -> None:
    agent = FakeAgent(tmp_path)

    found = gang_problem(_spec(agent, 2), GANG, agent.home)

    assert found == "rank 2 of m.0 was told of 2 nodes; update the server"


def test_an_address_that_no_interface_has_is_found_nowhere() -> None:
    assert interface_of("198.51.100.7") is None
    assert interface_of("127.0.0.1") == "lo"
