import json
from pathlib import Path

import click
import pytest

from llmgw.config.server import DEFAULT_PATH
from llmgw.ctl.address import Configured, find_server
from llmgw.ctl.main import SERVER_YAML, configured_server


def listening(folder: Path, admin: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "listening.json").write_text(json.dumps({"client": "127.0.0.1:1", "admin": admin}))
    return folder


def never() -> Configured | None:
    raise AssertionError("the configuration was read though something nearer was known")


def nothing() -> Configured | None:
    return None


def test_an_address_that_was_given_wins_over_all_others(tmp_path: Path) -> None:
    here = listening(tmp_path / ".llmgw", "127.0.0.1:9999")

    server = find_server("10.0.0.5:8081", "--server", here, never)

    assert (str(server), server.source) == ("10.0.0.5:8081", "from --server")


def test_a_server_started_in_this_folder_comes_next(tmp_path: Path) -> None:
    here = listening(tmp_path / ".llmgw", "127.0.0.1:9999")

    server = find_server(None, "--server", here, never)

    assert (str(server), server.source) == ("127.0.0.1:9999", f"from {here}/listening.json")


def test_then_what_the_configured_server_wrote_down(tmp_path: Path) -> None:
    data = listening(tmp_path / "data", "127.0.0.1:7777")
    configured = Configured("/etc/llmgw/server.yaml", str(data), "127.0.0.1:0")

    server = find_server(None, "--server", tmp_path, lambda: configured)

    assert (server.port, server.source) == (7777, f"from {data}/listening.json")


def test_then_what_the_configuration_says(tmp_path: Path) -> None:
    configured = Configured("/etc/llmgw/server.yaml", str(tmp_path / "none"), "[::1]:9081")

    server = find_server(None, "--server", tmp_path, lambda: configured)

    assert (str(server), server.source) == ("[::1]:9081", "from /etc/llmgw/server.yaml")


def test_then_the_default(tmp_path: Path) -> None:
    server = find_server(None, "--server", tmp_path, nothing)

    assert (str(server), server.source) == ("127.0.0.1:8081", "the default")


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"admin": 7}', "\xff"])
def test_a_note_that_cannot_be_read_is_passed_over(tmp_path: Path, content: str) -> None:
    (tmp_path / "listening.json").write_text(content, encoding="latin-1")

    assert find_server(None, "--server", tmp_path, nothing).source == "the default"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("gw", "gw:8081"),
        ("http://gw:9000/", "gw:9000"),
        ("https://gw", "https://gw:443"),
        ("[fd00::5]:8081", "[fd00::5]:8081"),
    ],
)
def test_an_address_may_be_written_in_several_ways(tmp_path: Path, text: str, shown: str) -> None:
    assert str(find_server(text, "--server", tmp_path, never)) == shown


@pytest.mark.parametrize("text", ["gw:port", "ftp://gw", ":8081", "gw:99999", "[fd00"])
def test_what_is_no_address_is_a_wrong_command_line(tmp_path: Path, text: str) -> None:
    with pytest.raises(click.UsageError, match="wanted the server as host:port"):
        find_server(text, "LLMGW_SERVER", tmp_path, never)


def test_this_machines_configuration_says_where_the_server_is(tmp_path: Path) -> None:
    path = tmp_path / "server.yaml"
    path.write_text("data_dir: /srv/llmgw\nlisten: {admin: 127.0.0.1:9081}\n")

    assert configured_server(str(path)) == Configured(str(path), "/srv/llmgw", "127.0.0.1:9081")


def test_a_configuration_that_is_missing_or_wrong_says_nothing(tmp_path: Path) -> None:
    path = tmp_path / "server.yaml"

    missing = configured_server(str(path))
    path.write_text("data_dirr: /srv\n")

    assert missing is configured_server(str(path)) is None


def test_ctl_and_server_look_for_the_same_configuration() -> None:
    assert SERVER_YAML == DEFAULT_PATH
