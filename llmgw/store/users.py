"""People who may log in and their sessions, as they are kept: hashes of passwords, digests of tokens."""

from datetime import datetime

from sqlalchemy import RowMapping, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from llmgw.core.accounts.users import SessionRecord, User
from llmgw.core.errors import Conflict
from llmgw.store.database import Database
from llmgw.store.tables import sessions, users
from llmgw.store.times import from_text, to_text


class UserStore:
    """Keeps users and their sessions. Written by the people's own verbs only (control.people)."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def all(self) -> tuple[tuple[User, str], ...]:
        """Read every user with the hash of the password, oldest first."""
        async with self._database.read() as connection:
            rows = await connection.execute(select(users).order_by(users.c.id))
            return tuple((_user(row), row["password"]) for row in rows.mappings())

    async def add(self, name: str, password: str, *, admin: bool, at: datetime) -> User:
        """Keep a new user.

        Args:
            password: its hash.

        Raises:
            Conflict: somebody is called so already; letters that differ only in case count as the same.
        """
        try:
            async with self._database.write() as connection:
                values = {"name": name, "password": password, "admin": admin, "created_at": to_text(at)}
                result = await connection.execute(insert(users).values(values).returning(users.c.id))
                return User(id=result.scalar_one(), name=name, admin=admin, created_at=at)
        except IntegrityError as error:
            raise Conflict(f"a user is called {name!r} already; choose another name") from error

    async def add_first(self, name: str, password: str, at: datetime) -> User:
        """Keep the first admin.

        Raises:
            Conflict: there is an admin already, whoever was quicker.
        """
        async with self._database.write() as connection:
            count = await connection.execute(select(func.count()).where(users.c.admin))
            if count.scalar_one():
                raise Conflict("there is an admin already; log in, or ask that admin")
            values = {"name": name, "password": password, "admin": True, "created_at": to_text(at)}
            result = await connection.execute(insert(users).values(values).returning(users.c.id))
            return User(id=result.scalar_one(), name=name, admin=True, created_at=at)

    async def change(self, user: User, *, admin: bool | None = None, password: str | None = None) -> None:
        """Change what is given; a new password, or another word on admin, ends all sessions of the user."""
        values = {
            key: value for key, value in (("admin", admin), ("password", password)) if value is not None
        }
        async with self._database.write() as connection:
            await connection.execute(update(users).where(users.c.id == user.id).values(values))
            await connection.execute(delete(sessions).where(sessions.c.user == user.id))

    async def remove(self, user: User) -> None:
        """Remove a user and all sessions of that user."""
        async with self._database.write() as connection:
            await connection.execute(delete(sessions).where(sessions.c.user == user.id))
            await connection.execute(delete(users).where(users.c.id == user.id))

    async def sessions(self) -> tuple[SessionRecord, ...]:
        """Read every session, ended ones too."""
        async with self._database.read() as connection:
            rows = await connection.execute(select(sessions))
            return tuple(_session(row) for row in rows.mappings())

    async def begin(self, session: SessionRecord) -> None:
        """Keep a new session, and forget all that have ended."""
        async with self._database.write() as connection:
            ended = sessions.c.ends_at <= to_text(session.created_at)
            await connection.execute(delete(sessions).where(ended))
            await connection.execute(
                insert(sessions).values(
                    digest=session.digest,
                    user=session.user,
                    csrf=session.csrf,
                    created_at=to_text(session.created_at),
                    ends_at=to_text(session.ends_at),
                )
            )

    async def renew(self, session: SessionRecord, ends_at: datetime) -> None:
        """Let a session live longer."""
        async with self._database.write() as connection:
            where = sessions.c.digest == session.digest
            await connection.execute(update(sessions).where(where).values(ends_at=to_text(ends_at)))

    async def end(self, session: SessionRecord) -> None:
        """Forget a session; one that is not there is fine."""
        async with self._database.write() as connection:
            await connection.execute(delete(sessions).where(sessions.c.digest == session.digest))


def _user(row: RowMapping) -> User:
    return User(
        id=row["id"], name=row["name"], admin=bool(row["admin"]), created_at=from_text(row["created_at"])
    )


def _session(row: RowMapping) -> SessionRecord:
    return SessionRecord(
        digest=row["digest"],
        user=row["user"],
        csrf=row["csrf"],
        created_at=from_text(row["created_at"]),
        ends_at=from_text(row["ends_at"]),
    )
