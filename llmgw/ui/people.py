"""What the pages and the API ask of those who keep the people that may log in."""

from typing import Protocol

from llmgw.core.accounts.users import LoggedIn, LoginRefused, User


class People(Protocol):
    """Who may log in, and who has."""

    def users(self) -> tuple[User, ...]:
        """List everybody, oldest first."""

    async def create(self, name: str, password: str, *, admin: bool) -> User:
        """Make a user."""

    async def change(self, name: str, *, admin: bool | None = None, password: str | None = None) -> User:
        """Change a user, who must log in anew."""

    async def remove(self, name: str) -> User:
        """Remove a user."""

    def first_token(self) -> str | None:
        """Give the token with which the first admin may be made; None when there is an admin."""

    async def create_first(self, token: str, name: str, password: str) -> User:
        """Make the first admin for whoever holds the one-time token."""

    async def log_in(self, name: str, password: str, address: str) -> LoggedIn | LoginRefused:
        """Begin a session for whoever knows the password."""

    async def begin(self, user: User) -> LoggedIn:
        """Begin a session for somebody who has been proven."""

    def find(self, token: str) -> LoggedIn | None:
        """Find who is logged in with this token; None when nobody is."""

    async def log_out(self, token: str) -> None:
        """End a session; one that is not there is fine."""
