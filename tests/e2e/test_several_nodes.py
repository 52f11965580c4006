"""Replicas on several nodes, each in a network namespace of its own: engines that really meet over TCP (RUN-11).

The engines are programs of the same command lines (fakes/gang_engine.py); a real one hangs for long when it has lost
one of its ranks, and so do they. What is seen here: they come up, they answer, and of a broken replica nothing is left.
"""

import json
import os
import signal
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from real.environments import make_environment, make_programs
from real.house import House, wait_for
from real.network import Network, NoNamespaces
from real.requirement import missing

pytestmark = pytest.mark.slow

NODES = {"heartbeat": "500ms", "unreachable_after": "2s", "lost_after": "3s", "start_grace": "20s"}
MODEL = "spread"


class Stage:
    """A server and nodes, each in its namespace, with one engine."""

    def __init__(self, house: House, network: Network, engines: dict[str, str]) -> None:
        self.house = house
        self.network = network
        self._engines = engines
        house.before = {name: network.inside(name) for name in network.address}
        here = f"{network.address['server']}:0"
        listen = {"client": here, "admin": here, "agents": here}
        listen |= {"admin_without_login": True, "insecure_plaintext": True}
        house.start_server(listen=listen, nodes=NODES)
        self.nodes = [name for name in network.address if name != "server"]
        for name in self.nodes:
            house.start_agent(name, engines=engines, insecure_plaintext=True)
        for name in self.nodes:
            house.wait_node(name, "ready")
        self.key = house.ctl("keys", "create", "somebody").stdout.strip()

    def apply(self, **profile: Any) -> None:
        (engine,) = self._engines
        given = {
            "name": "p",
            "engine": engine,
            "weights": f"file://{self.weights(engine)}",
            "nodes": 2,
        } | profile
        self.house.apply({"models": [{"name": MODEL, "profiles": [given]}]})

    def weights(self, engine: str) -> Path:
        folder = self.house.root / "weights"
        if not folder.exists():
            folder.mkdir()
            (folder / "config.json").write_text("{}")
            (folder / "model.safetensors").write_bytes(b"none")
        return folder / "model.safetensors" if engine == "llama.cpp" else folder

    def ranks(self, after: str = "", without: str = "") -> dict[str, dict[str, Any]]:
        """Wait until both ranks of a generation other than `after` are all there is, and ready; give them by shard.

        Args:
            without: a node of which it does not matter what it said last.
        """

        def both() -> Any:
            rows = [row for row in self.house.replicas(MODEL) if row["node"] != without]
            ready = len(rows) == 2 and all(row["phase"] == "ready" and not row["leaving"] for row in rows)
            alike = len({row["generation"] for row in rows}) == 1 and rows[0]["generation"] != after
            return ready and alike and {row["shard"]: row for row in rows}

        found: dict[str, dict[str, Any]] = wait_for("both ranks are ready", both, 60)
        return found

    def said(self) -> str:
        """Ask the model something, as a client does."""
        asked = {"model": MODEL, "messages": [{"role": "user", "content": "How many?"}]}
        request = urllib.request.Request(
            f"{self.house.url}/chat/completions",
            data=json.dumps(asked).encode(),
            headers={"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=20) as answer:
            return str(json.load(answer)["choices"][0]["message"]["content"])

    def engines(self) -> set[int]:
        """Find every process of an engine: what carries an agent's mark."""
        return {pid for pid in self.house.marked() if b"LLMGW_ENGINE=" in read(pid, "environ")}

    def check_nothing_left(self) -> None:
        self.house.apply({"models": []}, "--prune")
        wait_for("nothing is left of the replica", lambda: not self.house.replicas(), 40)
        wait_for("no engine is left", lambda: not self.engines(), 20)


def read(pid: int, what: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{what}").read_bytes()
    except OSError:
        return b""


@pytest.fixture
def stage(make_house: Callable[..., House], tmp_path: Path) -> Iterator[Callable[..., Stage]]:
    """Make a stage with an engine, on nodes n1, n2 and so on; the network goes when the house has."""
    with_networks: list[Network] = []

    def make(engine: str, count: int) -> Stage:
        try:
            network = Network("server", *(f"n{number}" for number in range(1, count + 1)))
        except NoNamespaces as error:
            missing(str(error))
        with_networks.append(network.__enter__())
        folder = tmp_path / engine
        made = make_programs(folder) if engine == "llama.cpp" else make_environment(folder, engine)
        return Stage(make_house(), network, {engine: str(made)})

    yield make
    for network in with_networks:
        network.close()


def test_vllm_on_two_of_three_nodes_comes_up_answers_and_starts_anew_as_a_whole(
    stage: Callable[..., Stage],
) -> None:
    played = stage("vllm", 3)

    played.apply()
    first = played.ranks()
    answer = played.said()
    os.kill(first[f"{MODEL}.0.1"]["pid"], signal.SIGKILL)
    second = played.ranks(after=first[f"{MODEL}.0.0"]["generation"])
    again = played.said()
    left = wait_for("only two engines live", lambda: len(found := played.engines()) == 2 and found, 20)

    assert {row["node"] for row in first.values()} < {"n1", "n2", "n3"}
    assert (answer, again) == ("2 ranks", "2 ranks")
    assert left == {row["pid"] for row in second.values()}
    assert not left & {row["pid"] for row in first.values()}
    played.check_nothing_left()


def test_when_the_node_of_a_rank_is_cut_off_the_replica_moves_as_a_whole_and_one_is_left_at_the_end(
    stage: Callable[..., Stage],
) -> None:
    played = stage("vllm", 3)
    played.apply()
    first = played.ranks()
    away = first[f"{MODEL}.0.1"]["node"]

    played.network.cut(away)
    try:
        played.house.wait_node(away, "lost")
        second = played.ranks(after=first[f"{MODEL}.0.0"]["generation"], without=away)
        meanwhile = played.said()
    finally:
        played.network.heal(away)
    played.house.wait_node(away, "ready", 45)
    last = played.ranks()

    assert {row["node"] for row in second.values()} == {"n1", "n2", "n3"} - {away}
    assert meanwhile == "2 ranks"
    assert {row["pid"] for row in last.values()} == {row["pid"] for row in second.values()}
    wait_for("the cut rank is gone", lambda: played.engines() == {row["pid"] for row in last.values()}, 20)


def test_sglang_ends_in_the_order_of_its_ranks_and_a_rank_without_its_head_is_killed(
    stage: Callable[..., Stage],
) -> None:
    played = stage("sglang", 2)

    played.apply()
    first = played.ranks()
    answer = played.said()
    os.kill(first[f"{MODEL}.0.0"]["pid"], signal.SIGKILL)
    second = played.ranks(after=first[f"{MODEL}.0.0"]["generation"])
    played.check_nothing_left()

    assert answer == "2 ranks"
    assert not {row["pid"] for row in first.values()} & {row["pid"] for row in second.values()}
    follower = second[f"{MODEL}.0.1"]
    log = (played.house.root / follower["node"] / "logs" / f"{follower['shard']}.log").read_text()
    assert log.endswith("rank 0 says go\nrank 0 says end\n")


def test_vllm_over_ray_serves_when_all_nodes_have_joined(stage: Callable[..., Stage]) -> None:
    played = stage("vllm", 2)

    played.apply(args=["--distributed-executor-backend", "ray"])
    ranks = played.ranks()
    answer = played.said()
    head = ranks[f"{MODEL}.0.0"]
    log = (played.house.root / head["node"] / "logs" / f"{head['shard']}.log").read_text()
    played.check_nothing_left()

    assert answer == "2 ranks"
    order = ["Ray runtime started.", "all 2 nodes have joined", "Application startup complete."]
    assert sorted(order, key=log.index) == order


def test_llama_cpp_uses_the_devices_of_another_node_over_rpc(stage: Callable[..., Stage]) -> None:
    played = stage("llama.cpp", 2)

    played.apply()
    ranks = played.ranks()
    answer = played.said()
    played.check_nothing_left()

    assert {row["node"] for row in ranks.values()} == {"n1", "n2"}
    assert answer == "2 ranks"
