import json
from pathlib import Path

import pytest
from click.testing import Result
from fakes.operations import FakeOperations

GOLDEN = Path(__file__).parent / "golden"

VERBS = {
    "status": ["status"],
    "nodes": ["nodes"],
    "node-big": ["node", "big"],
    "node-old": ["node", "old"],
    "node-small": ["node", "small"],
    "models": ["models"],
    "replicas": ["replicas"],
    "replicas-gemma": ["replicas", "gemma"],
    "explain-gemma": ["explain", "gemma"],
    "explain-qwen": ["explain", "qwen"],
}


def without_port(result: Result) -> str:
    address = next((word for word in result.stdout.split() if word.startswith("127.0.0.1:")), "none")
    return result.stdout.replace(address.rstrip(","), "127.0.0.1:PORT")


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_prints_its_table(ctl, name: str) -> None:
    result = ctl(*VERBS[name])

    assert (result.exit_code, result.stderr) == (0, "")
    text = without_port(result) if name == "status" else result.stdout
    assert text == (GOLDEN / f"{name}.txt").read_text()


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_prints_the_apis_json_wherever_the_option_stands(ctl, name: str) -> None:
    before = ctl("--json", *VERBS[name])
    behind = ctl(*VERBS[name], "--json")

    assert before.exit_code == behind.exit_code == 0
    assert json.loads(before.stdout) == json.loads(behind.stdout)


def test_an_empty_fleet_and_an_empty_catalog_say_what_to_do(ctl, operations: FakeOperations) -> None:
    operations.reset()

    said = [ctl(verb).stdout for verb in ("nodes", "models", "replicas")]

    assert said == [
        "no node has registered\n",
        "the catalog is empty; fill it with 'llmgw ctl apply -f catalog.yaml'\n",
        "no replica\n",
    ]


def test_the_hold_of_a_starting_server_is_shown(ctl, operations: FakeOperations) -> None:
    operations.hold = "waiting 12 s more for node-b, which was known before the server started"

    assert "placing   held: waiting 12 s more for node-b" in ctl("status").stdout


def test_what_an_engine_printed_cannot_steer_the_terminal(ctl) -> None:
    assert "\x1b" not in ctl("replicas", "gemma").stdout
