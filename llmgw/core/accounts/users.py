"""People who may log in: what is kept of one, and what a name and a password must be."""

from datetime import datetime, timedelta

import msgspec

from llmgw.core.errors import Problem

SHORTEST_PASSWORD = 10
LONGEST_PASSWORD = 512
"""In characters. Hashing is slow on purpose, and what is hashed must not make it slower without end."""

LONGEST_NAME = 96
LIVES = timedelta(hours=12)
"""A session ends after so long without a request."""
RENEWED_AFTER = timedelta(minutes=30)
"""Its twelve hours begin anew with a request only when so much of them is over: few writes, and nobody notices."""
LONGEST_LIFE = timedelta(days=7)
"""A session ends after so long in any case."""


class User(msgspec.Struct, frozen=True, kw_only=True):
    """A person who may log in; the password is kept only as its hash, in the store."""

    id: int
    name: str
    admin: bool = False
    created_at: datetime


class SessionRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One login; its token is in the browser's cookie and kept only as a digest.

    Attributes:
        csrf: what every form of this session carries, so that no other site can send one.
        ends_at: when it ends unless it is used before.
    """

    digest: bytes
    user: int
    csrf: str
    created_at: datetime
    ends_at: datetime

    def is_alive(self, at: datetime) -> bool:
        """Tell whether it still lets somebody in."""
        return at < self.ends_at

    def renewed_until(self, at: datetime) -> datetime | None:
        """Say until when it lives from now on; None when that is not worth writing down yet."""
        ends_at = min(at + LIVES, self.created_at + LONGEST_LIFE)
        return ends_at if ends_at - self.ends_at >= RENEWED_AFTER else None


class LoggedIn(msgspec.Struct, frozen=True, kw_only=True):
    """Who is logged in; `token` belongs into the cookie and is kept nowhere."""

    user: User
    session: SessionRecord
    token: str = ""


class LoginRefused(msgspec.Struct, frozen=True, kw_only=True):
    """Why somebody may not log in now.

    Attributes:
        wait_s: seconds until the next try counts; 0 when it may come at once.
    """

    reason: str
    wait_s: float = 0.0


def user_problems(name: str, password: str | None) -> list[Problem]:
    """Find what is wrong with a name and a password; None leaves the password out."""
    problems = []
    if not 0 < len(name) <= LONGEST_NAME or not name.isprintable() or name != name.strip() or "/" in name:
        wanted = (
            f"wanted 1 to {LONGEST_NAME} printable characters without a slash and without space around them"
        )
        problems.append(Problem(("name",), f"{wanted}, found {name[:LONGEST_NAME]!r}"))
    if password is not None and (wrong := password_problem(name, password)):
        problems.append(Problem(("password",), wrong))
    return problems


def password_problem(name: str, password: str) -> str | None:
    """Say why a password cannot be used, without repeating it; None when it can."""
    if not SHORTEST_PASSWORD <= len(password) <= LONGEST_PASSWORD:
        return f"wanted {SHORTEST_PASSWORD} to {LONGEST_PASSWORD} characters, found {len(password)}"
    if password.casefold() == name.casefold():
        return "wanted something else than the name"
    if len(set(password)) < 4:
        return "wanted at least 4 different characters"
    return None
