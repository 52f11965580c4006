"""`ctl users`: people who may log in to the pages."""

import sys
from typing import Any

import click

from llmgw.ctl.failure import Failed
from llmgw.ctl.render import moment, plain
from llmgw.ctl.session import Session, json_option, pass_session


@click.group()
def users() -> None:
    """Make, list, change and remove people who may log in."""


@users.command()
@click.argument("name")
@click.option("--admin", is_flag=True, help="May see the admin pages, and do all there is to do.")
@json_option
@pass_session
def create(session: Session, name: str, admin: bool) -> None:
    """Make a user called NAME. The password is asked for, or read from standard input when that is no terminal."""
    body = {"name": name, "password": _password(name), "admin": admin}
    made = session.client().post("users", body=body)
    session.print(made, f"made {_words(made)}; log in on the client port under /login")


@users.command("list")
@json_option
@pass_session
def list_users(session: Session) -> None:
    """List everybody who may log in."""
    found = session.client().get("users")
    if not found:
        text = "no user; make an admin with 'llmgw ctl users create NAME --admin'"
    else:
        rows = [
            [user["name"], "admin" if user["admin"] else "user", moment(user["created_at"])] for user in found
        ]
        text = session.table(["NAME", "MAY", "CREATED"], rows)
    session.print(found, text)


@users.command()
@click.argument("name")
@json_option
@pass_session
def password(session: Session, name: str) -> None:
    """Give NAME another password, asked for or read as with create; NAME must log in anew."""
    changed = session.client().post("users", name, body={"password": _password(name)})
    session.print(changed, f"{_words(changed)} has another password and must log in anew")


@users.command()
@click.argument("name")
@click.argument("what", type=click.Choice(["on", "off"]))
@json_option
@pass_session
def admin(session: Session, name: str, what: str) -> None:
    """Let NAME be an admin (on) or no longer (off)."""
    changed = session.client().post("users", name, body={"admin": what == "on"})
    session.print(changed, f"{_words(changed)} must log in anew")


@users.command()
@click.argument("name")
@json_option
@pass_session
def remove(session: Session, name: str) -> None:
    """Remove NAME, who is out at once."""
    removed = session.client().post("users", name, "remove")
    session.print(removed, f"removed {_words(removed)}")


def _password(name: str) -> str:
    """Ask for a password twice; from standard input one line is taken as it is."""
    if sys.stdin.isatty():
        return str(click.prompt(f"password of {plain(name)}", hide_input=True, confirmation_prompt=True))
    given = sys.stdin.readline().rstrip("\n")
    if not given:
        raise Failed("no password: write it to standard input, as one line, or run this on a terminal")
    return given


def _words(user: dict[str, Any]) -> str:
    return f"{'admin' if user['admin'] else 'user'} {plain(user['name'])!r}"
