"""Verbs that act on nodes, models and replicas: what they tell the server, and what they say."""

import json

import pytest
from fakes.operations import FakeOperations
from msgspec.structs import replace

from llmgw.core.errors import Conflict
from llmgw.core.fleet.events import NodeEvent
from llmgw.core.fleet.orders import Orders, begin_roll, stopped
from llmgw.core.fleet.silence import Alarm


@pytest.mark.parametrize(
    ("verb", "told", "said"),
    [
        ("drain", ("state", "big", "draining"), "node big is draining; still there: gemma.0;"),
        ("cordon", ("state", "big", "cordoned"), "node big is cordoned: it keeps what it has;"),
        ("uncordon", ("state", "big", "ready"), "node big takes work again"),
        ("forget", ("forget", "big"), "node big is forgotten;"),
    ],
)
def test_a_verb_on_a_node_tells_the_server_and_says_what_comes_of_it(
    ctl, operations: FakeOperations, verb: str, told: tuple[str, ...], said: str
) -> None:
    result = ctl("nodes", verb, "big")

    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith(said)
    assert operations.upkeep.told == [told]


def test_a_refusal_of_the_server_is_shown_and_ends_with_one(ctl, operations: FakeOperations) -> None:
    operations.upkeep.failure = Conflict("node 'big' is connected")

    result = ctl("nodes", "forget", "big", "--json")

    assert result.exit_code == 1
    assert "node 'big' is connected" in result.stderr
    assert json.loads(result.stdout)["error"]["code"] == "conflict"


@pytest.mark.parametrize("noun", ["nodes", "models", "replicas"])
def test_a_noun_alone_lists_as_its_list_does(ctl, noun: str) -> None:
    assert ctl(noun).stdout == ctl(noun, "list").stdout != ""
    assert json.loads(ctl(noun, "--json").stdout) == json.loads(ctl("--json", noun, "list").stdout)


def test_a_wrong_word_behind_a_noun_is_an_error_of_the_command_line(ctl) -> None:
    result = ctl("nodes", "drian", "big")

    assert result.exit_code == 2
    assert "No such command 'drian'" in result.stderr


def test_replicas_of_a_model_that_is_called_like_a_verb_are_listed_with_list(ctl) -> None:
    assert "no replica of 'restart'" in ctl("replicas", "list", "restart").stdout


def test_rolling_says_how_many_are_to_be_replaced(ctl, operations: FakeOperations) -> None:
    every, stale, none = (
        ctl("models", "roll", "gemma", "--all"),
        ctl("models", "roll", "gemma"),
        ctl("models", "roll", "qwen"),
    )

    assert every.stdout.startswith("gemma: rolling, 0 of 1 replicas replaced; 'llmgw ctl models' shows")
    assert stale.stdout.startswith("no replica of gemma is to be replaced: none that runs is stale (--all")
    assert none.exit_code == 0
    assert operations.rolled == [("gemma", True), ("gemma", False), ("qwen", False)]


def test_models_show_rolls_below_the_table(ctl, operations: FakeOperations) -> None:
    gemma = operations.wanted.model("gemma")
    assert gemma is not None
    roll = stopped(begin_roll(gemma, operations.observed, every=True), "the new gemma.2 failed")
    operations.upkeep.orders = Orders(rolls={"gemma": roll})

    table = ctl("models").stdout

    assert table.endswith("rolls:\n  gemma: stopped, 0 of 1 replicas replaced; the new gemma.2 failed\n")
    assert "it is rolled" not in ctl("replicas").stdout


def test_replicas_that_are_to_go_say_why(ctl, operations: FakeOperations) -> None:
    gemma = operations.wanted.model("gemma")
    assert gemma is not None
    operations.upkeep.orders = Orders(rolls={"gemma": begin_roll(gemma, operations.observed, every=True)})

    assert "it is rolled" in ctl("replicas", "gemma").stdout


def test_restarting_a_replica_says_what_happens(ctl, operations: FakeOperations) -> None:
    result = ctl("replicas", "restart", "gemma.0")

    assert result.stdout == (
        "replica gemma.0 (3.1) ends when it has finished what it has, and starts again\n"
    )
    assert operations.upkeep.told == [("restart", "gemma.0")]


def test_the_alarm_is_shown_in_status_and_by_its_own_verb_and_cleared(
    ctl, operations: FakeOperations
) -> None:
    none = ctl("alarm")
    operations.alarm = Alarm(since=operations.clock.start, nodes=("n1", "n2"), fleet=3)

    status, shown, cleared = ctl("status").stdout, ctl("alarm").stdout, ctl("alarm", "clear")

    assert none.stdout == "no alarm\n"
    assert "alarm     2 of 3 nodes silent for 100 s: n1, n2\n" in status
    assert "alarm: 2 of 3 nodes fell silent together (n1, n2); nothing of theirs is placed" in status
    assert "since   100 s ago" in shown
    assert cleared.stdout == "the alarm is over; what ran on n1, n2 is placed elsewhere when they are lost\n"
    assert operations.upkeep.told == [("clear",)]


def test_a_node_shows_its_last_events(ctl, operations: FakeOperations) -> None:
    event = NodeEvent(at=operations.clock.start, node="big", kind="replica", text="gemma.0 (1.1) is ready")
    operations.upkeep.known["big"] = tuple(replace(event, text=f"{event.text} {i}") for i in range(25))

    shown = ctl("node", "big").stdout

    assert "events (and 5 earlier ones in --json):\n  2030-01-01 00:00  gemma.0 (1.1) is ready 5\n" in shown
    assert shown.endswith("  2030-01-01 00:00  gemma.0 (1.1) is ready 24\n")
