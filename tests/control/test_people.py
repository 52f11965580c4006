import asyncio

import pytest
from fakes.clock import FakeClock
from fakes.user_store import MemoryUserStore, a_people

from llmgw.core.accounts.users import LIVES, LoggedIn, LoginRefused
from llmgw.core.errors import BadInput, Conflict, NotFound, StoreFailed

GOOD = "correct horse battery"
OTHER = "another good password"


class _House:
    """People over a store in memory."""

    def __init__(self, store: MemoryUserStore | None = None) -> None:
        self.store = store or MemoryUserStore()
        self.clock = FakeClock()
        self.people = a_people(self.clock, self.store)

    async def logged_in(self, name: str = "ada", password: str = GOOD) -> LoggedIn:
        found = await self.people.log_in(name, password, "10.0.0.1")
        assert isinstance(found, LoggedIn)
        return found

    async def refused(self, name: str = "ada", password: str = "wrong password") -> LoginRefused:
        found = await self.people.log_in(name, password, "10.0.0.1")
        assert isinstance(found, LoginRefused)
        return found


async def a_house(admin: bool = True) -> _House:
    house = _House()
    await house.people.create("ada", GOOD, admin=admin)
    return house


async def test_who_knows_the_password_is_logged_in_whatever_the_case_of_the_name() -> None:
    house = await a_house()

    found = await house.logged_in(" ADA ")

    again = house.people.find(found.token)
    assert again is not None
    assert (again.user.name, again.session.csrf) == ("ada", found.session.csrf)
    assert found.token.encode() not in house.store.begun
    assert house.store.kept[1][1].startswith("$argon2id$")


async def test_a_wrong_name_and_a_wrong_password_are_refused_in_the_same_words() -> None:
    house = await a_house()

    assert (await house.refused("ada")).reason == (await house.refused("nobody")).reason


async def test_five_wrong_passwords_slow_the_sixth_even_when_it_is_right() -> None:
    house = await a_house()
    for _ in range(5):
        await house.refused()

    sixth = await house.refused(password=GOOD)
    house.clock.advance(sixth.wait_s)
    then = await house.logged_in()

    assert sixth.wait_s == 2.0
    assert "try again in 2 s" in sixth.reason
    assert house.people.find(then.token) is not None


async def test_many_tries_at_once_do_not_slip_past_the_count() -> None:
    house = await a_house()

    found = await asyncio.gather(*(house.people.log_in("ada", f"wrong {n}", "10.0.0.1") for n in range(12)))

    reasons = [one.reason for one in found if isinstance(one, LoginRefused)]
    assert sum("too many" in reason for reason in reasons) == 7


async def test_a_session_ends_when_it_is_not_used_and_lives_on_while_it_is() -> None:
    house = await a_house()
    found = await house.logged_in()

    house.clock.advance(LIVES.total_seconds() - 60)
    used = house.people.find(found.token)
    house.clock.advance(3600)
    later = house.people.find(found.token)
    house.clock.advance(LIVES.total_seconds())
    unused = house.people.find(found.token)

    assert used is not None
    assert later is not None
    assert unused is None


async def test_users_and_sessions_outlive_the_server() -> None:
    house = await a_house()
    found = await house.logged_in()

    after = _House(house.store)
    await after.people.load()

    again = after.people.find(found.token)
    assert again is not None
    assert again.user == found.user


async def test_a_new_password_another_word_on_admin_and_removal_end_every_session() -> None:
    house = await a_house()
    await house.people.create("grace", OTHER, admin=True)
    tokens = []
    for change in ({"password": OTHER}, {"admin": False}):
        tokens.append((await house.logged_in("ada", GOOD if not tokens else OTHER)).token)
        await house.people.change("ada", **change)  # type: ignore[arg-type]
    tokens.append((await house.logged_in("ada", OTHER)).token)
    await house.people.remove("ada")

    assert [house.people.find(token) for token in tokens] == [None, None, None]
    assert house.store.begun == {}


async def test_logging_out_ends_the_session_alone() -> None:
    house = await a_house()
    first, second = await house.logged_in(), await house.logged_in()

    await house.people.log_out(first.token)

    assert house.people.find(first.token) is None
    assert house.people.find(second.token) is not None


async def test_the_last_admin_stays() -> None:
    house = await a_house()

    with pytest.raises(Conflict, match="last admin"):
        await house.people.remove("ada")
    with pytest.raises(Conflict, match="last admin"):
        await house.people.change("ada", admin=False)

    assert house.people.has_admin()


async def test_the_first_admin_is_made_once_with_the_one_time_token() -> None:
    house = _House()
    token = house.people.first_token()
    assert token is not None

    with pytest.raises(BadInput, match="earlier start"):
        await house.people.create_first("another", "ada", GOOD)
    made = await house.people.create_first(token, "ada", GOOD)
    with pytest.raises(Conflict, match="an admin already"):
        await house.people.create_first(token, "grace", GOOD)

    assert made.admin
    assert house.people.first_token() is None


async def test_what_the_store_does_not_take_never_happened() -> None:
    house = await a_house()
    house.store.broken = True

    with pytest.raises(StoreFailed):
        await house.people.create("grace", OTHER, admin=False)
    with pytest.raises(StoreFailed):
        await house.people.change("ada", password=OTHER)
    with pytest.raises(StoreFailed):
        await house.people.log_in("ada", GOOD, "10.0.0.1")
    house.store.broken = False

    assert [user.name for user in house.people.users()] == ["ada"]
    assert await house.logged_in()


async def test_bad_names_and_passwords_and_unknown_users_are_refused_by_name() -> None:
    house = await a_house()

    with pytest.raises(BadInput) as bad:
        await house.people.create("a/b", "short", admin=False)
    with pytest.raises(NotFound, match="known: ada"):
        await house.people.remove("nobody")
    with pytest.raises(Conflict, match="already"):
        await house.people.create("Ada", OTHER, admin=False)

    assert [problem.path for problem in bad.value.problems] == [("name",), ("password",)]
