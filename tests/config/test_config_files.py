import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from llmgw.config.agent import AgentConfig
from llmgw.config.load import load, parse_yaml, problems_text, read_yaml
from llmgw.config.server import Listen, Nodes, RouterSettings, ServerConfig
from llmgw.core.errors import BadInput
from llmgw.core.fleet.catalog import Catalog, Model, Profile, read_catalog

HERE = Path(__file__).parent
DOCS = Path(__file__).parents[2] / "docs" / "configuration.md"
GOOD = sorted((HERE / "good").glob("*.yaml"))
BAD = sorted((HERE / "bad").glob("*.yaml"))


def read_as_named(path: Path) -> Any:
    """Read a file as the kind its name begins with."""
    kinds = {"server": ServerConfig, "agent": AgentConfig}
    kind = path.name.split("-")[0]
    if kind in kinds:
        return load(path, kinds[kind])
    document = read_yaml(path)
    catalog, problems = read_catalog(document.data, engines=["llama.cpp"])
    if catalog is None:
        raise BadInput(problems_text(document, problems), problems)
    return catalog


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_a_good_file_is_read(path: Path) -> None:
    assert isinstance(read_as_named(path), ServerConfig | AgentConfig | Catalog)


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_a_bad_file_is_refused_with_exactly_the_message_beside_it(path: Path) -> None:
    with pytest.raises(BadInput) as caught:
        read_as_named(path)

    said = str(caught.value).replace(f"{path.parent}/", "")
    assert said + "\n" == path.with_suffix(".txt").read_text()


def test_no_file_gives_the_defaults_where_it_may_be_missing(tmp_path: Path) -> None:
    config = load(tmp_path / "server.yaml", ServerConfig, may_be_missing=True)

    assert config == ServerConfig()
    assert config.router.max_body == 64 * 1024**2
    with pytest.raises(BadInput, match="cannot be read"):
        load(tmp_path / "server.yaml", ServerConfig)


def test_every_key_takes_what_is_written() -> None:
    config = load(HERE / "good" / "server-full.yaml", ServerConfig)

    assert config == ServerConfig(
        data_dir="/srv/llmgw",
        listen=Listen(
            client="[::]:8080",
            admin="10.0.0.5:8081",
            agents="gw.example:8443",
            admin_without_login=True,
            insecure_plaintext=True,
        ),
        catalog="/etc/llmgw/catalog.yaml",
        nodes=Nodes(
            heartbeat=1.0, unreachable_after=3.0, lost_after=300.0, start_grace=0.0, drain_deadline=120.0
        ),
        router=RouterSettings(max_body=1024**2),
    )


def test_one_server_address_may_stand_without_a_list() -> None:
    assert load(HERE / "good" / "agent-one-server.yaml", AgentConfig).server == ("127.0.0.1:9443",)


def keys_of(kind: type[Any], prefix: str = "") -> set[str]:
    keys = set()
    for field in msgspec.structs.fields(kind):
        inner = field.type
        if isinstance(inner, type) and issubclass(inner, msgspec.Struct):
            keys |= keys_of(inner, f"{prefix}{field.name}.")
        else:
            keys.add(prefix + field.name)
    return keys


@pytest.mark.parametrize(
    ("heading", "kinds"),
    [("server.yaml", [ServerConfig]), ("agent.yaml", [AgentConfig]), ("catalog.yaml", [Model, Profile])],
)
def test_the_documentation_lists_every_key_and_no_other(heading: str, kinds: list[type[Any]]) -> None:
    section = DOCS.read_text().split(f"## {heading}")[1].split("\n## ")[0]

    listed = set(re.findall(r"^\| `([a-z_.]+)`", section, re.MULTILINE))

    assert listed == set().union(*(keys_of(kind) for kind in kinds))


@pytest.mark.parametrize(("heading", "kind"), [("server.yaml", ServerConfig), ("agent.yaml", AgentConfig)])
def test_the_documented_defaults_and_examples_are_right(heading: str, kind: type[Any]) -> None:
    section = DOCS.read_text().split(f"## {heading}")[1].split("\n## ")[0]
    data: dict[str, Any] = {}
    for key, default in re.findall(r"^\| `([a-z_.]+)` \| `([^`]+)` \|", section, re.MULTILINE):
        *outer, last = key.split(".")
        place = data
        for step in outer:
            place = place.setdefault(step, {})
        place[last] = {"true": True, "false": False}.get(default, default)

    assert kind.read(data) == (kind(), [])


def test_the_documented_examples_are_read() -> None:
    kinds = {"server.yaml": ServerConfig.read, "agent.yaml": AgentConfig.read, "catalog.yaml": read_catalog}
    examples = re.findall(r"## (\S+\.yaml)\n.*?```yaml\n(.*?)```", DOCS.read_text(), re.DOTALL)

    found = {name: kinds[name](parse_yaml(text.encode(), name).data) for name, text in examples}

    assert set(found) == set(kinds)
    assert all(problems == [] for _, problems in found.values())
