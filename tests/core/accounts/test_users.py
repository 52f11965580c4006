from datetime import UTC, datetime, timedelta

import pytest

from llmgw.core.accounts.users import LIVES, LONGEST_LIFE, SessionRecord, password_problem, user_problems

AT = datetime(2030, 1, 1, tzinfo=UTC)


def a_session(**changed: object) -> SessionRecord:
    given = {"digest": b"d", "user": 1, "csrf": "c", "created_at": AT, "ends_at": AT + LIVES}
    return SessionRecord(**given | changed)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", " ada", "ada ", "a/b", "a\nb", "x" * 97])
def test_a_name_that_cannot_be_shown_or_addressed_is_refused(name: str) -> None:
    problems = user_problems(name, "correct horse battery")

    assert [problem.path for problem in problems] == [("name",)]


@pytest.mark.parametrize(
    ("password", "found"),
    [
        ("short", "found 5"),
        ("x" * 513, "found 513"),
        ("GRACE HOPPER", "something else than the name"),
        ("aaaaaaaaaabbbbc", "4 different characters"),
    ],
)
def test_a_password_that_is_easily_guessed_is_refused_without_being_repeated(
    password: str, found: str
) -> None:
    problem = password_problem("grace hopper", password)

    assert problem is not None
    assert found in problem
    assert password not in problem


def test_a_long_password_of_any_characters_is_fine() -> None:
    assert user_problems("grace", "ä long sentence, with ♥") == []


def test_a_session_ends_twelve_hours_after_its_last_use_and_a_week_after_its_beginning() -> None:
    session = a_session()

    soon = session.renewed_until(AT + timedelta(minutes=29))
    later = session.renewed_until(AT + timedelta(hours=11))
    last = a_session(ends_at=AT + LONGEST_LIFE - timedelta(hours=1)).renewed_until(AT + timedelta(days=6.9))

    assert session.is_alive(AT + LIVES - timedelta(seconds=1))
    assert not session.is_alive(AT + LIVES)
    assert soon is None
    assert later == AT + timedelta(hours=23)
    assert last == AT + LONGEST_LIFE
