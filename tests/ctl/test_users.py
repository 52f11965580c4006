import asyncio
import json

from fakes.operations import FakeOperations

from llmgw.core.accounts.users import LoggedIn

PASSWORD = "correct horse battery"


def test_an_admin_is_made_with_the_password_from_standard_input(ctl, operations: FakeOperations) -> None:
    result = ctl("users", "create", "ada", "--admin", input=f"{PASSWORD}\n")

    entered = asyncio.run(operations.people.log_in("ada", PASSWORD, "10.0.0.1"))
    assert result.stdout == "made admin 'ada'; log in on the client port under /login\n"
    assert isinstance(entered, LoggedIn)
    assert entered.user.admin


def test_a_password_that_cannot_be_used_is_refused_without_being_shown(ctl) -> None:
    result = ctl("users", "create", "ada", input="short\n")

    assert result.exit_code == 1
    assert "password: wanted 10 to 512 characters, found 5" in result.stderr
    assert "short" not in result.stderr + result.stdout


def test_no_password_at_all_says_where_to_write_it(ctl) -> None:
    result = ctl("users", "create", "ada", input="")

    assert result.exit_code == 1
    assert "write it to standard input" in result.stderr


def test_users_are_listed_changed_and_removed(ctl) -> None:
    for name in ("ada", "grace"):
        ctl("users", "create", name, "--admin", input=f"{PASSWORD}\n")

    changed = [
        ctl("users", "admin", "grace", "off"),
        ctl("users", "password", "grace", input="another good password\n"),
    ]
    listed = ctl("users", "list")
    removed = ctl("users", "remove", "grace", "--json")

    assert [result.exit_code for result in changed] == [0, 0]
    assert listed.stdout == (
        "NAME   MAY    CREATED\nada    admin  2030-01-01 00:01\ngrace  user   2030-01-01 00:01\n"
    )
    assert json.loads(removed.stdout)["name"] == "grace"
    assert ctl("users", "list").stdout.count("\n") == 2


def test_the_last_admin_and_unknown_names_are_refused(ctl) -> None:
    ctl("users", "create", "ada", "--admin", input=f"{PASSWORD}\n")

    refused = [
        ctl("users", "remove", "ada"),
        ctl("users", "admin", "ada", "off"),
        ctl("users", "remove", "eve"),
    ]

    assert [result.exit_code for result in refused] == [1, 1, 1]
    assert "last admin" in refused[0].stderr
    assert "no user is called 'eve'; known: ada" in refused[2].stderr


def test_no_user_says_how_to_make_an_admin(ctl) -> None:
    assert (
        ctl("users", "list").stdout == "no user; make an admin with 'llmgw ctl users create NAME --admin'\n"
    )
