"""Why a verb did not do what it was asked to; every one ends the program with status 1."""

from typing import IO, Any

import click


class Failed(click.ClickException):
    """The verb was refused or failed; the message is for people."""

    exit_code = 1
    prefix = "llmgw: "

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the message on standard error."""
        click.echo(f"{self.prefix}{self.format_message()}", file=file, err=True)


class Refused(Failed):
    """The server said no.

    Attributes:
        body: its answer, `{"error": {"code", "message", "problems"}}`.
    """

    def __init__(self, message: str, body: dict[str, Any]) -> None:
        super().__init__(message)
        self.body = body

    @property
    def problems(self) -> list[dict[str, Any]]:
        """Each thing that is wrong with what was sent: `{"path", "message"}`."""
        found = self.body["error"].get("problems")
        return found if isinstance(found, list) else []


class BadFile(Refused):
    """A file cannot be used; every line of the message begins with the file's name, as editors understand it."""

    prefix = ""


class Unreadable(Failed):
    """A file cannot be read at all; the message begins with the file's name too."""

    prefix = ""
