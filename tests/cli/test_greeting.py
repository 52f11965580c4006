"""What a newcomer reads first."""

from pathlib import Path

from llmgw.cli.greeting import greeting, refused
from llmgw.core.errors import BadInput, Conflict

FOLDER = Path("/home/me/.llmgw")
ADMIN = "127.0.0.1:8081"
LISTEN = {"client": "127.0.0.1:8080", "admin": "127.0.0.1:8081", "agents": "127.0.0.1:8443"}


def test_the_line_to_try_is_a_completion_of_a_few_tokens() -> None:
    said = greeting("127.0.0.1:8080", "sk-1", FOLDER, ["gemma", "other"], admin=ADMIN)

    assert "curl http://127.0.0.1:8080/v1/completions -H 'Authorization: Bearer sk-1'" in said
    assert '"model": "gemma", "prompt": "The capital of France is", "max_tokens": 32' in said
    assert "takes an instruction-tuned model" in said


def test_it_says_where_the_pages_are() -> None:
    said = greeting("127.0.0.1:8080", "sk-1", FOLDER, ["gemma"], admin="127.0.0.1:18081")

    assert "  pages http://127.0.0.1:18081/\n" in said


def test_without_a_catalog_it_says_where_to_write_one() -> None:
    said = greeting("127.0.0.1:8080", "sk-1", FOLDER, [], admin=ADMIN)

    assert "no models yet: write /home/me/.llmgw/catalog.yaml" in said
    assert "curl" not in said


def test_a_catalog_that_was_refused_is_not_called_missing() -> None:
    said = greeting(
        "127.0.0.1:8080", "sk-1", FOLDER, [], ["/home/me/.llmgw/catalog.yaml:3: unknown key 'x'"], admin=ADMIN
    )

    assert "no models yet" not in said
    assert "    /home/me/.llmgw/catalog.yaml:3: unknown key 'x'\n" in said
    assert "correct it, then: llmgw ctl apply -f '/home/me/.llmgw/catalog.yaml'" in said


def test_an_address_that_is_taken_comes_with_the_lines_to_write_and_their_file() -> None:
    said = refused(Conflict("listen.client: cannot listen on 127.0.0.1:8080: in use"), FOLDER, LISTEN)

    assert "Here that file is /home/me/.llmgw/server.yaml" in said
    assert said.endswith("\n  listen:\n    client: 127.0.0.1:18080")


def test_all_addresses_that_are_taken_come_in_one_piece_to_write() -> None:
    taken = "\n".join(
        f"listen.{name}: cannot listen on {address}: in use" for name, address in LISTEN.items()
    )

    said = refused(Conflict(taken), FOLDER, LISTEN)

    assert said.startswith(taken)
    assert said.endswith(
        "\n  listen:\n    client: 127.0.0.1:18080\n    admin: 127.0.0.1:18081\n    agents: 127.0.0.1:18443"
    )


def test_any_other_refusal_is_told_as_it_is() -> None:
    assert refused(BadInput("listen.client: no address"), FOLDER, LISTEN) == "listen.client: no address"
    assert (
        refused(Conflict("another server has the folder"), FOLDER, LISTEN) == "another server has the folder"
    )
