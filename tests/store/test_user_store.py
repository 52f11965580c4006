from datetime import UTC, datetime, timedelta

import pytest

from llmgw.core.accounts.users import SessionRecord, User
from llmgw.core.errors import Conflict
from llmgw.store.database import Database
from llmgw.store.users import UserStore

AT = datetime(2030, 1, 1, 12, 30, tzinfo=UTC)


def a_session(digest: bytes, user: User, **changed: datetime) -> SessionRecord:
    times = {"created_at": AT, "ends_at": AT + timedelta(hours=1)} | changed
    return SessionRecord(digest=digest, user=user.id, csrf="c", **times)


async def test_users_come_back_as_they_were_given_with_the_hash_of_the_password(database: Database) -> None:
    store = UserStore(database)

    ada = await store.add("ada", "hash-1", admin=True, at=AT)
    bob = await store.add("bob", "hash-2", admin=False, at=AT)

    assert await store.all() == ((ada, "hash-1"), (bob, "hash-2"))
    assert (ada.admin, bob.admin, ada.created_at) == (True, False, AT)


async def test_a_name_is_taken_whatever_its_case(database: Database) -> None:
    store = UserStore(database)
    await store.add("ada", "hash", admin=False, at=AT)

    with pytest.raises(Conflict, match="already"):
        await store.add("ADA", "hash", admin=False, at=AT)


async def test_a_first_admin_is_made_only_while_there_is_none(database: Database) -> None:
    store = UserStore(database)
    await store.add("bob", "hash", admin=False, at=AT)

    first = await store.add_first("ada", "hash", AT)
    with pytest.raises(Conflict, match="an admin already"):
        await store.add_first("eve", "hash", AT)

    assert first.admin
    assert [user.name for user, _ in await store.all()] == ["bob", "ada"]


async def test_a_new_session_clears_away_those_that_have_ended(database: Database) -> None:
    store = UserStore(database)
    ada = await store.add("ada", "hash", admin=True, at=AT)
    await store.begin(a_session(b"1", ada))
    await store.begin(a_session(b"2", ada, ends_at=AT + timedelta(hours=9)))

    later = AT + timedelta(hours=2)
    await store.begin(a_session(b"3", ada, created_at=later, ends_at=later + timedelta(hours=1)))

    assert {session.digest for session in await store.sessions()} == {b"2", b"3"}


async def test_a_session_lives_longer_when_renewed_and_is_gone_when_ended(database: Database) -> None:
    store = UserStore(database)
    ada = await store.add("ada", "hash", admin=True, at=AT)
    one, two = a_session(b"1", ada), a_session(b"2", ada)
    for session in (one, two):
        await store.begin(session)

    await store.renew(one, AT + timedelta(hours=5))
    await store.end(two)

    assert [(s.digest, s.ends_at) for s in await store.sessions()] == [(b"1", AT + timedelta(hours=5))]


async def test_a_change_and_a_removal_end_the_sessions_of_that_user_alone(database: Database) -> None:
    store = UserStore(database)
    ada = await store.add("ada", "hash", admin=True, at=AT)
    bob = await store.add("bob", "hash", admin=False, at=AT)
    for digest, user in ((b"1", ada), (b"2", bob)):
        await store.begin(a_session(digest, user))

    await store.change(ada, admin=False, password="another")
    after_change = [session.digest for session in await store.sessions()]
    await store.remove(bob)

    assert after_change == [b"2"]
    assert await store.sessions() == ()
    [(left, hash_)] = await store.all()
    assert (left.name, left.admin, hash_) == ("ada", False, "another")
