"""Users and sessions in memory; while `broken` is set, it refuses as a full disk would."""

from datetime import datetime

import msgspec
from argon2 import PasswordHasher

from llmgw.control.passwords import Passwords
from llmgw.control.people import People
from llmgw.core.accounts.users import SessionRecord, User
from llmgw.core.errors import Conflict, StoreFailed
from llmgw.runtime.clock import Clock

CHEAP = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
"""Hashing that costs nothing."""


class MemoryUserStore:
    def __init__(self) -> None:
        self.broken = False
        self.kept: dict[int, tuple[User, str]] = {}
        self.begun: dict[bytes, SessionRecord] = {}

    def check(self) -> None:
        if self.broken:
            raise StoreFailed("the database is full")

    async def all(self) -> tuple[tuple[User, str], ...]:
        return tuple(self.kept.values())

    async def add(self, name: str, password: str, *, admin: bool, at: datetime) -> User:
        self.check()
        if any(user.name.casefold() == name.casefold() for user, _ in self.kept.values()):
            raise Conflict(f"a user is called {name!r} already; choose another name")
        user = User(id=len(self.kept) + 1, name=name, admin=admin, created_at=at)
        self.kept[user.id] = (user, password)
        return user

    async def add_first(self, name: str, password: str, at: datetime) -> User:
        if any(user.admin for user, _ in self.kept.values()):
            raise Conflict("there is an admin already; log in, or ask that admin")
        return await self.add(name, password, admin=True, at=at)

    async def change(self, user: User, *, admin: bool | None = None, password: str | None = None) -> None:
        self.check()
        before, hash_ = self.kept[user.id]
        after = msgspec.structs.replace(before, admin=before.admin if admin is None else admin)
        self.kept[user.id] = (after, password or hash_)
        self.begun = {key: one for key, one in self.begun.items() if one.user != user.id}

    async def remove(self, user: User) -> None:
        self.check()
        del self.kept[user.id]
        self.begun = {key: one for key, one in self.begun.items() if one.user != user.id}

    async def sessions(self) -> tuple[SessionRecord, ...]:
        return tuple(self.begun.values())

    async def begin(self, session: SessionRecord) -> None:
        self.check()
        self.begun[session.digest] = session

    async def renew(self, session: SessionRecord, ends_at: datetime) -> None:
        self.check()
        self.begun[session.digest] = msgspec.structs.replace(session, ends_at=ends_at)

    async def end(self, session: SessionRecord) -> None:
        self.check()
        self.begun.pop(session.digest, None)


def a_people(clock: Clock, store: MemoryUserStore | None = None) -> People:
    """Make people over a store in memory."""
    return People(store or MemoryUserStore(), Passwords(CHEAP), clock=clock)
