import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from fakes.http_server import HttpServer
from fakes.operations import FakeOperations

from llmgw import __version__
from llmgw.core.accounts.access import Denied, KeyRecord, Scope, find_key
from llmgw.core.errors import StoreFailed
from llmgw.ctl.address import Server
from llmgw.ctl.client import Client
from llmgw.ctl.failure import Failed
from llmgw.ctl.main import VERBS, command
from llmgw.ui.app import client_app


@pytest.fixture
def parrot() -> Iterator[tuple[str, list[bytes]]]:
    """A listener that answers each connection with the next of the given replies, then is silent."""
    replies: list[bytes] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        held = []
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                break
            held.append(connection)
            if replies:
                connection.recv(65536)
                connection.sendall(replies.pop(0))
                connection.close()
        for connection in held:
            connection.close()

    thread = threading.Thread(target=answer)
    thread.start()
    yield f"127.0.0.1:{listener.getsockname()[1]}", replies
    listener.shutdown(socket.SHUT_RDWR)
    thread.join()
    listener.close()


def test_a_server_that_is_not_there_is_named_with_where_its_address_came_from(ctl) -> None:
    result = ctl("status", server="127.0.0.1:1")

    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        "llmgw: no server reached at 127.0.0.1:1 (from LLMGW_SERVER): connection refused; "
        "start one with 'llmgw server', or name another with --server or LLMGW_SERVER\n"
    )


def test_the_option_is_named_where_it_gave_the_address(ctl) -> None:
    assert "at 127.0.0.1:2 (from --server)" in ctl("--server", "127.0.0.1:2", "status").stderr


def test_a_server_that_does_not_answer_is_given_up(parrot: tuple[str, list[bytes]]) -> None:
    host, port = parrot[0].split(":")
    client = Client(Server(host, int(port), tls=False, source="the default"), timeout_s=0.05)

    with pytest.raises(Failed, match=r"no server reached at .* \(the default\): no answer within 0\.05 s"):
        client.get("status")


@pytest.mark.parametrize(
    ("reply", "found"),
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n", "no HTTP"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello", "HTTP 200, and no JSON"),
        (b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\n{}", "HTTP 404"),
    ],
)
def test_what_is_not_llmgw_is_told_apart(
    ctl, parrot: tuple[str, list[bytes]], reply: bytes, found: str
) -> None:
    parrot[1].append(reply)

    result = ctl("status", server=parrot[0])

    assert result.exit_code == 1
    assert f"is not llmgw's admin API ({found})" in result.stderr


def test_a_node_nobody_knows_is_refused_with_those_there_are(ctl) -> None:
    result = ctl("node", "bog")

    assert (result.exit_code, result.stderr) == (1, "llmgw: no node is called 'bog'; did you mean 'big'?\n")


def test_a_refusal_is_json_on_standard_output_where_json_was_asked_for(ctl) -> None:
    result = ctl("node", "bog", "--json")

    assert result.exit_code == 1
    assert json.loads(result.stdout)["error"]["code"] == "not_found"


def test_a_fault_of_the_server_is_told_by_its_id(ctl, operations: FakeOperations) -> None:
    operations.failure = ZeroDivisionError("a detail")

    result = ctl("nodes")

    assert result.exit_code == 1
    assert result.stderr.startswith("llmgw: internal error ")
    assert "a detail" not in result.stderr


def test_on_the_client_port_ctl_needs_an_admin_key(ctl, operations: FakeOperations) -> None:
    def find_admin_key(key: bytes | None) -> KeyRecord | Denied:
        keyring = {record.digest: record for record in operations.records}
        return find_key(keyring, key, operations.clock.at())

    admin = ctl("keys", "create", "ops", "--scope", "admin").stdout.strip()
    other = ctl("keys", "create", "me").stdout.strip()
    server = HttpServer(client_app(operations, find_admin_key=find_admin_key))
    try:
        none = ctl("status", server=server.address)
        wrong = ctl("--key", other, "status", server=server.address)
        right = ctl("--key", admin, "status", server=server.address)
        by_environment = CliRunner().invoke(
            command, ["status"], env={"LLMGW_SERVER": server.address, "LLMGW_API_KEY": admin}
        )
    finally:
        server.stop()

    assert [one.exit_code for one in (none, wrong, right, by_environment)] == [1, 1, 0, 0]
    assert "no API key" in none.stderr
    assert f"(asked at {server.address}; ctl takes the key from LLMGW_API_KEY or --key)" in none.stderr
    assert "is for inference, and the admin API wants one of scope admin" in wrong.stderr
    assert operations.records[0].scope == Scope.ADMIN


def test_both_versions_are_shown_and_ctls_own_even_when_nobody_answers(ctl) -> None:
    both = ctl("version")
    alone = ctl("version", server="127.0.0.1:1")

    assert (both.exit_code, alone.exit_code) == (0, 1)
    assert both.stdout.startswith(f"ctl {__version__}\nserver {__version__} at 127.0.0.1:")
    assert alone.stdout == f"ctl {__version__}\n"


def test_an_unknown_verb_and_an_unknown_option_are_wrong_command_lines(ctl) -> None:
    assert [ctl(*words).exit_code for words in (["florp"], ["status", "--florp"], ["explain"])] == [2, 2, 2]


def test_a_store_that_cannot_be_written_is_told_when_a_catalog_is_applied(
    ctl, operations: FakeOperations
) -> None:
    operations.failure = StoreFailed("the database /srv/llmgw.db cannot grow: the disk is full")

    result = ctl("apply", "-f", "-", input="models: []")

    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "llmgw: the database /srv/llmgw.db cannot grow: the disk is full\n"


def test_verbs_and_options_are_completed(ctl) -> None:
    def complete(words: str, position: int) -> list[str]:
        environment = {"_CTL_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(position)}
        return CliRunner().invoke(command, [], env=environment, prog_name="ctl").stdout.split()

    assert complete("ctl re", 1) == ["plain,replicas"]
    assert "plain,--server" in complete("ctl --", 1)


def test_every_verb_is_in_the_help_and_has_its_own(ctl) -> None:
    overview = ctl("--help").stdout

    assert [name for name in VERBS if f"\n  {name} " not in overview] == []
    assert {ctl(name, "--help").exit_code for name in VERBS} == {0}


IMPORTED = """
import sys
from click.testing import CliRunner
from llmgw.ctl.main import command
result = CliRunner().invoke(command, sys.argv[1:])
heavy = {"yaml", "litestar", "sqlalchemy", "msgspec", "httpx", "asyncio", "llmgw.config"}
print(result.exit_code, sorted(heavy & set(sys.modules)))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["--help"], 0), (["--server", "127.0.0.1:1", "status"], 1), (["keys", "--help"], 0)],
)
def test_ctl_starts_without_what_it_does_not_need(arguments: list[str], code: int, tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", IMPORTED, *arguments], capture_output=True, text=True, cwd=tmp_path, timeout=60
    )

    assert (ended.stdout, ended.stderr) == (f"{code} []\n", "")


def test_white_space_around_a_key_is_taken_away(ctl) -> None:
    result = CliRunner().invoke(
        command, ["status"], env={"LLMGW_SERVER": "127.0.0.1:1", "LLMGW_API_KEY": " sk-llmgw-1\n"}
    )

    assert result.exit_code == 1
    assert "no server reached" in result.stderr


@pytest.mark.parametrize("key", ["sk-llmgw-1\nx", "sk llmgw", "sk-llmgw-ü"])
def test_a_key_that_no_header_can_carry_is_refused_without_being_shown(ctl, key: str) -> None:
    result = ctl("--key", key, "status")

    assert (result.exit_code, result.stdout) == (2, "")
    assert "holds a space, a line break or a character that is not ASCII" in result.stderr
    assert key not in result.stderr


def test_explain_of_nothing_says_what_to_name(ctl) -> None:
    result = ctl("explain", "")

    assert result.exit_code == 2
    assert "name a model, as in 'llmgw ctl explain gemma-270m'" in result.stderr
