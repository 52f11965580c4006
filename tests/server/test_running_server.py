"""A server as a process sees it: what it refuses to start on, what it says where, and how it ends."""

import asyncio
import gc
import json
import os
import socket
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner
from fakes.catalogs import catalog_data
from fakes.engine import SSE_HEAD, Act, FakeEngine, chunk
from fakes.http_client import HttpClient, get, post
from fakes.nodes import a_shard
from fakes.running_server import RunningServer, a_config
from fakes.waiting import until
from msgspec.structs import replace

from llmgw.config.server import Listen
from llmgw.core.errors import BadInput, Conflict, LlmgwError
from llmgw.server.main import command, run_server

pytestmark = pytest.mark.slow


async def _start_and_end(folder: Path, **given: object) -> None:
    async with RunningServer(folder, **given):
        pass


async def test_a_running_server_says_where_it_listens_and_takes_that_back_when_it_ends(
    tmp_path: Path,
) -> None:
    said = tmp_path / "server" / "listening.json"

    async with RunningServer(tmp_path) as server:
        announced = json.loads(said.read_bytes())
        expected = {"pid": os.getpid()} | {
            name: getattr(server.listening, name) for name in ("client", "admin", "agents")
        }
    after = sorted(path.name for path in said.parent.iterdir())

    assert announced == expected
    assert after == ["llmgw.db", "server.lock"]


async def test_the_client_port_carries_v1_and_the_admin_api_behind_a_key(tmp_path: Path) -> None:
    async with RunningServer(tmp_path) as server:
        key = (await server.tell("keys", {"name": "root", "scope": "admin"}))["key"]
        answers = {
            "models": await server.ask(get("/v1/models", key=key)),
            "v1": await server.ask(get("/v1", key=key)),
            "no key": await server.ask(get("/api/v1/status", key=None)),
            "admin key": await server.ask(get("/api/v1/status", key=key)),
            "elsewhere": await server.ask(get("/v1x", key=key)),
        }

    assert {name: answer.status for name, answer in answers.items()} == {
        "models": 200,
        "v1": 404,
        "no key": 401,
        "admin key": 200,
        "elsewhere": 404,
    }
    assert answers["v1"].error()["code"] == "unknown_url"
    assert json.loads(answers["admin key"].body)["epoch"] == 1


@pytest.mark.parametrize(("grace_s", "warned"), [(14.0, True), (15.0, False)])
async def test_a_grace_in_which_agents_may_not_be_back_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, grace_s: float, warned: bool
) -> None:
    await _start_and_end(tmp_path, nodes=replace(a_config(tmp_path).nodes, start_grace=grace_s))

    said = [record.message for record in caplog.records if "nodes.start_grace is 14 s" in record.message]
    assert bool(said) == warned
    assert all("can be started a second time elsewhere" in message for message in said)


async def test_no_answer_names_the_software_below(tmp_path: Path) -> None:
    async with RunningServer(tmp_path) as server:
        answer = await server.ask(get("/health", key=None), of="admin")

    assert answer.get(b"server") is None


async def test_every_start_has_a_higher_epoch_and_keeps_what_was_applied(tmp_path: Path) -> None:
    async with RunningServer(tmp_path) as first:
        await first.tell("apply", {"catalog": catalog_data({"name": "gemma"})})
        before = (await first.read("status"))["epoch"]
    async with RunningServer(tmp_path) as second:
        after = (await second.read("status"))["epoch"]
        models = [model["name"] for model in await second.read("models")]

    assert (before, after) == (1, 2)
    assert models == ["gemma"]


async def test_an_address_in_use_is_an_error_that_names_address_and_key(tmp_path: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        for key in ("client", "admin", "agents"):
            listen = replace(a_config(tmp_path).listen, **{key: address})
            with pytest.raises(Conflict) as caught:
                await _start_and_end(tmp_path, listen=listen)
            assert f"listen.{key}: cannot listen on {address}: Address already in use" in str(caught.value)
            assert "in server.yaml" in str(caught.value)


async def test_all_addresses_in_use_are_told_at_once(tmp_path: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        listen = replace(a_config(tmp_path).listen, client=address, agents=address)

        with pytest.raises(Conflict) as caught:
            await _start_and_end(tmp_path, listen=listen)

    assert [line.partition(":")[0] for line in str(caught.value).splitlines()] == [
        "listen.client",
        "listen.agents",
    ]


@pytest.mark.parametrize(
    ("address", "said"),
    [
        (
            "192.0.2.1:0",
            "Cannot assign requested address; write an address of this machine under listen.client",
        ),
        ("no-such-host.invalid:80", "listen.client: no-such-host.invalid:80 is no address"),
    ],
)
async def test_an_address_that_is_none_of_this_machine_is_an_error_with_a_remedy(
    tmp_path: Path, address: str, said: str
) -> None:
    with pytest.raises(BadInput) as caught:
        await _start_and_end(tmp_path, listen=replace(a_config(tmp_path).listen, client=address))

    assert said in str(caught.value)


async def test_a_server_listens_on_ipv6_as_well(tmp_path: Path) -> None:
    if not _has_ipv6():
        pytest.skip("this machine has no IPv6")
    listen = Listen(client="[::1]:0", admin="127.0.0.1:0", agents="127.0.0.1:0")

    async with RunningServer(tmp_path, listen=listen) as server:
        assert server.listening.client.startswith("[::1]:")


async def test_two_servers_do_not_share_a_data_dir(tmp_path: Path) -> None:
    async with RunningServer(tmp_path):
        with pytest.raises(Conflict) as caught:
            await _start_and_end(tmp_path)

    assert f"is used by another llmgw server, pid {os.getpid()}" in str(caught.value)


async def test_a_data_dir_that_cannot_be_made_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(BadInput, match=r"cannot be used: .*--data-dir"):
        await _start_and_end(tmp_path, data_dir=str(tmp_path / "file" / "below"))


async def test_a_catalog_file_is_applied_at_start(tmp_path: Path) -> None:
    file = tmp_path / "catalog.yaml"
    file.write_text(json.dumps(catalog_data({"name": "gemma"})))

    async with RunningServer(tmp_path, catalog=str(file)) as server:
        models = [model["name"] for model in await server.read("models")]
        problems = (await server.read("status"))["problems"]

    assert models == ["gemma"]
    assert not [problem for problem in problems if "catalog.yaml" in problem]


async def test_a_bad_catalog_file_leaves_the_stored_catalog_and_shows_in_log_and_status(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "catalog.yaml"
    file.write_text(json.dumps(catalog_data({"name": "gemma"})))
    await _start_and_end(tmp_path, catalog=str(file))
    file.write_text("models:\n  - name: other\n    replcas: 2\n    profiles: []\n")

    async with RunningServer(tmp_path, catalog=str(file)) as server:
        models = [model["name"] for model in await server.read("models")]
        problems = "\n".join((await server.read("status"))["problems"])

    assert models == ["gemma"]
    for said in (problems, caplog.text):
        assert f"{file}:3: models[0].replcas: unknown key 'replcas'; did you mean 'replicas'?" in said


async def test_a_catalog_file_that_is_not_there_does_not_keep_the_server_from_starting(
    tmp_path: Path,
) -> None:
    async with RunningServer(tmp_path, catalog=str(tmp_path / "none.yaml")) as server:
        problems = (await server.read("status"))["problems"]

    assert any("none.yaml" in problem for problem in problems)


async def test_a_request_in_flight_finishes_while_the_server_ends_and_new_ones_are_not_taken(
    tmp_path: Path,
) -> None:
    engine = FakeEngine([SSE_HEAD, chunk(b"data: 1\n\n"), Act.HOLD, chunk(b"data: [DONE]\n\n"), b"0\r\n\r\n"])
    async with engine, RunningServer(tmp_path) as server, server.agent() as agent:
        await server.tell("apply", {"catalog": catalog_data({"name": "gemma"})})
        key = (await server.tell("keys", {"name": "ci"}))["key"]
        await agent.register(shards=(a_shard(port=engine.port, host="127.0.0.1"),))
        await server.until("models", lambda rows: [row["ready"] for row in rows] == [1])
        async with HttpClient(server.port("client")) as client:
            await client.send(post(b'{"model": "gemma", "stream": true}', key=key))
            await until(lambda: engine.held)
            server.stop()
            await until(lambda: _refuses(server.port("client")))
            engine.released.set()
            answer = await client.read_answer()
            await server.task

    assert answer.status == 200
    assert answer.body.endswith(b"data: [DONE]\n\n")


def _has_ipv6() -> bool:
    with closing(socket.socket(socket.AF_INET6)) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError:
            return False
        return True


def _refuses(port: int) -> bool:
    with closing(socket.socket()) as probe:
        return probe.connect_ex(("127.0.0.1", port)) != 0


async def test_the_collector_is_as_it_was_after_a_server_has_ended(tmp_path: Path) -> None:
    before = gc.get_threshold()

    async with RunningServer(tmp_path):
        during = gc.get_threshold()

    assert gc.get_threshold() == before != during
    assert gc.get_freeze_count() == 0


async def test_a_server_that_cannot_start_leaves_nothing_behind_and_starts_when_it_can(
    tmp_path: Path,
) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        listen = replace(a_config(tmp_path).listen, agents=f"127.0.0.1:{taken.getsockname()[1]}")
        with pytest.raises(LlmgwError):
            await run_server(a_config(tmp_path, listen=listen), stop=asyncio.Event())
    await _start_and_end(tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("listne: {}\n", "unknown key 'listne'; did you mean 'listen'?"),
        ("listen: {admin: 0.0.0.0:8081}\n", "set admin_without_login: true"),
        ("listen: {agents: 0.0.0.0:8443}\n", "set insecure_plaintext: true"),
    ],
)
def test_a_configuration_that_cannot_be_used_ends_the_command_with_what_to_write(
    tmp_path: Path, text: str, said: str
) -> None:
    file = tmp_path / "server.yaml"
    file.write_text(text)

    done = CliRunner().invoke(command, ["--config", str(file), "--data-dir", str(tmp_path / "data")])

    assert done.exit_code == 1
    assert done.output.startswith(f"llmgw server: {file}:1: ")
    assert said in done.output
    assert not (tmp_path / "data").exists()


def test_a_configuration_file_that_was_named_and_is_not_there_is_an_error(tmp_path: Path) -> None:
    done = CliRunner().invoke(command, ["--config", str(tmp_path / "none.yaml")])

    assert done.exit_code == 1
    assert "none.yaml" in done.output
