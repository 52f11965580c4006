"""What is refused says why: bad catalogs, missing weights, models that fit nowhere."""

from collections.abc import Iterator
from pathlib import Path

import openai
import pytest
from real.gemma import model_path
from real.house import House, wait_for

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    house = House(tmp_path_factory.mktemp("refusals"))
    try:
        house.start_server()
        house.start_agent("n1", labels={"rack": "b1"})
        house.wait_node("n1", "ready")
        yield house
    finally:
        house.close()


BAD = {
    "a wrong key": (
        "models:\n  - name: a\n    replica: 2\n    profiles: []\n",
        3,
        ["replica", "replicas"],
    ),
    "an unknown engine": (
        "models:\n  - name: a\n    profiles:\n      - name: cpu\n        engine: lama.cpp\n        weights: file:///m.gguf\n",
        5,
        ["lama.cpp", "llama.cpp"],
    ),
    "two models of one name": (
        "models:\n  - name: a\n    profiles:\n      - {name: p, engine: llama.cpp, weights: file:///m.gguf}\n"
        "  - name: a\n    profiles:\n      - {name: p, engine: llama.cpp, weights: file:///m.gguf}\n",
        5,
        ["'a'", "twice"],
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_catalog_names_file_line_key_and_remedy_and_changes_nothing(house: House, case: str) -> None:
    text, line, words = BAD[case]
    before = house.json("models")

    done = house.apply(text, code=1)

    said = done.stdout + done.stderr
    assert f"catalog.yaml:{line}:" in said
    assert all(word in said for word in words), said
    assert house.json("models") == before


def test_weights_that_are_not_on_the_node_are_a_failed_replica_that_names_node_and_path(house: House) -> None:
    profile = {"name": "cpu", "engine": "llama.cpp", "weights": "file:///srv/none/absent.gguf"}
    house.apply({"models": [{"name": "absent", "profiles": [profile]}]})

    wait_for("the replica failed", lambda: [r for r in house.replicas("absent") if r["phase"] == "failed"])
    table = house.ctl("replicas").stdout
    explained = house.ctl("explain", "absent").stdout

    house.apply({"models": []}, "--prune")
    for said in (table, explained):
        assert "/srv/none/absent.gguf" in said
        assert "n1" in said


def test_a_model_that_fits_nowhere_is_explained_node_by_node_with_numbers(house: House) -> None:
    profile = {
        "name": "huge",
        "engine": "llama.cpp",
        "weights": f"file://{model_path()}",
        "min_memory_gb": 90000,
    }
    rack = profile | {"name": "elsewhere", "min_memory_gb": 1, "node_selector": {"rack": "b9"}}
    house.apply({"models": [{"name": "huge", "profiles": [profile, rack]}]})
    key = house.ctl("keys", "create", "tests").stdout.strip()

    explained = house.ctl("explain", "huge").stdout
    with (
        openai.OpenAI(base_url=house.url, api_key=key, max_retries=0) as client,
        pytest.raises(openai.InternalServerError) as caught,
    ):
        client.chat.completions.create(model="huge", messages=[{"role": "user", "content": "Hi"}])

    assert caught.value.status_code == 503
    assert int(caught.value.response.headers["retry-after"]) > 0
    for said in (explained, str(caught.value)):
        assert "n1" in said
        assert "87.9 TiB" in said
        assert "GiB free of" in said
        assert "rack=b9" in said


def test_an_agent_on_a_foreign_address_without_certificates_is_refused(house: House, tmp_path: Path) -> None:
    other = House(tmp_path)
    other.listening = {"agents": "192.0.2.1:8443"}
    other.start_agent("n9")

    code = other.processes["n9"].wait(20)

    assert code == 1
    assert "insecure_plaintext" in other.log("n9")


@pytest.mark.parametrize(
    ("key", "remedy"), [("agents", "insecure_plaintext"), ("admin", "admin_without_login")]
)
def test_a_server_on_a_foreign_address_asks_for_the_word_that_allows_it(
    key: str, remedy: str, tmp_path: Path
) -> None:
    house = House(tmp_path)
    listen = {"client": "127.0.0.1:0", "admin": "127.0.0.1:0", "agents": "127.0.0.1:0"} | {key: "0.0.0.0:0"}

    with pytest.raises(AssertionError) as caught:
        house.start_server(listen=listen)

    assert house.processes["server"].wait(20) == 1
    assert remedy in str(caught.value)
