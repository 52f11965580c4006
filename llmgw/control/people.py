"""People: who may log in, their sessions, and the one-time link for the first admin.

Sole writer of users and sessions. Both are read from memory, so that no page waits for the database; what is written
goes to the store first. Without an admin, the holder of the one-time token may make the first one; it is made anew at
every start, shown in the log alone, and is void as soon as there is an admin.
"""

import asyncio
import hmac
import logging
import secrets
from datetime import datetime
from typing import Protocol

import msgspec

from llmgw.control.passwords import Passwords
from llmgw.core.accounts.access import digest_of
from llmgw.core.accounts.throttle import Throttle, after_right, after_wrong, wait_s
from llmgw.core.accounts.users import (
    LIVES,
    LoggedIn,
    LoginRefused,
    SessionRecord,
    User,
    user_problems,
)
from llmgw.core.errors import BadInput, Conflict, NotFound, StoreFailed
from llmgw.core.units import show_seconds
from llmgw.runtime.clock import Clock

log = logging.getLogger(__name__)


class UserStore(Protocol):
    """Where users and sessions are kept."""

    async def all(self) -> tuple[tuple[User, str], ...]:
        """Read every user with the hash of the password."""

    async def add(self, name: str, password: str, *, admin: bool, at: datetime) -> User:
        """Keep a new user; Conflict when somebody is called so already."""

    async def add_first(self, name: str, password: str, at: datetime) -> User:
        """Keep the first admin; Conflict when there is one."""

    async def change(self, user: User, *, admin: bool | None = None, password: str | None = None) -> None:
        """Change what is given and end all sessions of the user."""

    async def remove(self, user: User) -> None:
        """Remove a user and all sessions of that user."""

    async def sessions(self) -> tuple[SessionRecord, ...]:
        """Read every session."""

    async def begin(self, session: SessionRecord) -> None:
        """Keep a new session."""

    async def renew(self, session: SessionRecord, ends_at: datetime) -> None:
        """Let a session live longer."""

    async def end(self, session: SessionRecord) -> None:
        """Forget a session."""


class People:
    """Owner of the users, of their sessions and of the count of wrong passwords."""

    def __init__(self, store: UserStore, passwords: Passwords, *, clock: Clock) -> None:
        self._store = store
        self._passwords = passwords
        self._clock = clock
        self._users: dict[int, User] = {}
        self._hashes: dict[int, str] = {}
        self._sessions: dict[bytes, SessionRecord] = {}
        self._throttle: Throttle = {}
        self._first = secrets.token_urlsafe(24)
        self._writing = asyncio.Lock()
        self._renewing: set[asyncio.Task[None]] = set()

    async def load(self) -> None:
        """Read everything into memory.

        Raises:
            StoreFailed: it cannot be read.
        """
        for user, hash_ in await self._store.all():
            self._users[user.id], self._hashes[user.id] = user, hash_
        self._sessions = {session.digest: session for session in await self._store.sessions()}

    # who there is

    def users(self) -> tuple[User, ...]:
        """List everybody, oldest first."""
        return tuple(self._users.values())

    def has_admin(self) -> bool:
        """Tell whether somebody may see the admin pages with a login."""
        return any(user.admin for user in self._users.values())

    def first_token(self) -> str | None:
        """Give the token with which the first admin may be made; None when there is an admin."""
        return None if self.has_admin() else self._first

    async def create(self, name: str, password: str, *, admin: bool) -> User:
        """Make a user.

        Raises:
            BadInput: the name or the password cannot be used.
            Conflict: somebody is called so already.
            StoreFailed: it could not be written.
        """
        hash_ = await self._checked_hash(name, password)
        async with self._writing:
            user = await self._store.add(name, hash_, admin=admin, at=self._clock.at())
            self._users[user.id], self._hashes[user.id] = user, hash_
        log.info("user %r was made%s", name, ", an admin" if admin else "")
        return user

    async def create_first(self, token: str, name: str, password: str) -> User:
        """Make the first admin for whoever holds the one-time token.

        Raises:
            Conflict: there is an admin already.
            BadInput: the token is another, or the name or the password cannot be used.
            StoreFailed: it could not be written.
        """
        wanted = self.first_token()
        if wanted is None:
            raise Conflict("there is an admin already; log in, or ask that admin")
        if not hmac.compare_digest(token.encode(), wanted.encode()):
            raise BadInput(
                "this link is of an earlier start of the server, or not whole; the server's log has the newest, and "
                "'llmgw ctl users create NAME --admin' works too"
            )
        hash_ = await self._checked_hash(name, password)
        async with self._writing:
            user = await self._store.add_first(name, hash_, self._clock.at())
            self._users[user.id], self._hashes[user.id] = user, hash_
        log.info("user %r was made, the first admin", name)
        return user

    async def change(self, name: str, *, admin: bool | None = None, password: str | None = None) -> User:
        """Give a user another password, or take or give the word of admin; the user must log in anew.

        Raises:
            NotFound: nobody is called so.
            BadInput: the password cannot be used.
            Conflict: nobody would be an admin any more.
            StoreFailed: it could not be written.
        """
        user = self._named(name)
        hash_ = None if password is None else await self._checked_hash(user.name, password)
        async with self._writing:
            user = self._named(name)
            if admin is False:
                self._check_others(user)
            await self._store.change(user, admin=admin, password=hash_)
            user = msgspec.structs.replace(user, admin=user.admin if admin is None else admin)
            self._users[user.id] = user
            if hash_ is not None:
                self._hashes[user.id] = hash_
            self._forget_sessions(user)
        log.info("user %r was changed, and must log in anew", user.name)
        return user

    async def remove(self, name: str) -> User:
        """Remove a user; whoever is logged in so is out at once.

        Raises:
            NotFound: nobody is called so.
            Conflict: it is the last admin.
            StoreFailed: it could not be written.
        """
        async with self._writing:
            user = self._named(name)
            self._check_others(user)
            await self._store.remove(user)
            del self._users[user.id], self._hashes[user.id]
            self._forget_sessions(user)
        log.info("user %r was removed", user.name)
        return user

    # logging in

    async def log_in(self, name: str, password: str, address: str) -> LoggedIn | LoginRefused:
        """Begin a session for whoever knows the password; wrong ones are counted and slow the next.

        Args:
            address: where the try comes from.

        Raises:
            StoreFailed: the session could not be written.
        """
        name = name.strip()
        known = name.casefold()
        wait = wait_s(self._throttle, known, address, self._clock.now())
        if wait > 0:
            return LoginRefused(
                reason=f"too many wrong passwords; try again in {show_seconds(max(1, wait))}", wait_s=wait
            )
        # Counted before it is checked, so that many tries at once do not all pass while the first is looked at.
        self._throttle = after_wrong(self._throttle, known, address, self._clock.now())
        user = self._find(name)
        hash_ = None if user is None else self._hashes[user.id]
        if not await self._passwords.is_right(hash_, password) or user is None:
            log.warning("a wrong name or password was tried from %s", address)
            return LoginRefused(reason="the name or the password is wrong")
        if self._users.get(user.id) is None:
            return LoginRefused(reason="the name or the password is wrong")
        self._throttle = after_right(self._throttle, known, address)
        return await self.begin(self._users[user.id])

    async def begin(self, user: User) -> LoggedIn:
        """Begin a session for somebody who has been proven.

        Raises:
            StoreFailed: it could not be written.
        """
        token, at = secrets.token_urlsafe(32), self._clock.at()
        session = SessionRecord(
            digest=digest_of(token),
            user=user.id,
            csrf=secrets.token_urlsafe(24),
            created_at=at,
            ends_at=at + LIVES,
        )
        await self._store.begin(session)
        self._sessions = {key: one for key, one in self._sessions.items() if one.is_alive(at)}
        self._sessions[session.digest] = session
        log.info("user %r logged in", user.name)
        return LoggedIn(user=user, session=session, token=token)

    def find(self, token: str) -> LoggedIn | None:
        """Find who is logged in with this token; None when nobody is (any more)."""
        session, at = self._sessions.get(digest_of(token)), self._clock.at()
        user = None if session is None else self._users.get(session.user)
        if session is None or user is None or not session.is_alive(at):
            return None
        ends_at = session.renewed_until(at)
        if ends_at is not None:
            self._renew(session, ends_at)
        return LoggedIn(user=user, session=session)

    async def log_out(self, token: str) -> None:
        """End a session; one that is not there is fine.

        Raises:
            StoreFailed: it could not be written; the session is over all the same until the server starts anew.
        """
        session = self._sessions.pop(digest_of(token), None)
        if session is not None:
            await self._store.end(session)

    # within

    def _renew(self, session: SessionRecord, ends_at: datetime) -> None:
        self._sessions[session.digest] = msgspec.structs.replace(session, ends_at=ends_at)
        task = asyncio.get_running_loop().create_task(self._written(session, ends_at))
        self._renewing.add(task)
        task.add_done_callback(self._renewing.discard)

    async def _written(self, session: SessionRecord, ends_at: datetime) -> None:
        try:
            await self._store.renew(session, ends_at)
        except StoreFailed as error:
            # It is renewed in memory; only a restart of the server would end it earlier.
            log.warning("a session could not be renewed in the database: %s", error)

    async def _checked_hash(self, name: str, password: str) -> str:
        if problems := user_problems(name, password):
            raise BadInput("the user cannot be kept", problems)
        return await self._passwords.hashed(password)

    def _find(self, name: str) -> User | None:
        return next((u for u in self._users.values() if u.name.casefold() == name.casefold()), None)

    def _named(self, name: str) -> User:
        user = self._find(name)
        if user is None:
            known = ", ".join(sorted(u.name for u in self._users.values())) or "nobody"
            raise NotFound(f"no user is called {name!r}; known: {known}")
        return user

    def _check_others(self, user: User) -> None:
        if user.admin and not any(u.admin for u in self._users.values() if u.id != user.id):
            raise Conflict(f"{user.name!r} is the last admin; make another one first")

    def _forget_sessions(self, user: User) -> None:
        self._sessions = {key: one for key, one in self._sessions.items() if one.user != user.id}
