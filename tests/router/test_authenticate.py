"""Keys in memory."""

from datetime import timedelta

from fakes.clock import FakeClock
from fakes.gateway import key_record

from llmgw.core.accounts.access import KeyRecord, digest_of
from llmgw.core.routing.openai import Refused
from llmgw.router.authenticate import Authenticator


def with_keys(*keys: str, clock: FakeClock | None = None, most: int = 10) -> Authenticator:
    authenticator = Authenticator(clock or FakeClock(), most)
    authenticator.set_keys({digest_of(key): key_record(key) for key in keys})
    return authenticator


def code(found: KeyRecord | Refused) -> str:
    assert isinstance(found, Refused)
    return found.code


def test_a_known_key_opens_the_door_whatever_the_case_of_the_scheme() -> None:
    authenticator = with_keys("sk-llmgw-a")

    for value in (b"Bearer sk-llmgw-a", b"bearer sk-llmgw-a", b"BEARER  sk-llmgw-a "):
        assert isinstance(authenticator.check(value), KeyRecord)


def test_no_key_another_scheme_and_an_unknown_key_are_refused() -> None:
    authenticator = with_keys("sk-llmgw-a")

    assert code(authenticator.check(None)) == "missing_api_key"
    assert code(authenticator.check(b"Basic abc")) == "missing_api_key"
    assert code(authenticator.check(b"Bearer ")) == "missing_api_key"
    assert code(authenticator.check(b"Bearer sk-llmgw-b")) == "invalid_api_key"


def test_a_key_that_was_taken_out_is_refused_at_once_though_it_was_remembered() -> None:
    authenticator = with_keys("sk-llmgw-a")
    assert isinstance(authenticator.check(b"Bearer sk-llmgw-a"), KeyRecord)

    authenticator.set_keys({})

    assert code(authenticator.check(b"Bearer sk-llmgw-a")) == "invalid_api_key"


def test_a_key_expires_while_it_is_in_use() -> None:
    clock = FakeClock()
    authenticator = Authenticator(clock)
    record = key_record("sk-llmgw-a", expires_at=clock.at() + timedelta(seconds=10))
    authenticator.set_keys({digest_of("sk-llmgw-a"): record})
    before = authenticator.check(b"Bearer sk-llmgw-a")

    clock.advance(10)

    assert before is record
    assert code(authenticator.check(b"Bearer sk-llmgw-a")) == "invalid_api_key"


def test_a_store_that_cannot_be_read_is_said_to_be_away_and_no_key_is_blamed() -> None:
    authenticator = with_keys("sk-llmgw-a")
    authenticator.check(b"Bearer sk-llmgw-a")

    authenticator.set_keys(None)

    for value in (None, b"Bearer sk-llmgw-a", b"Bearer nonsense"):
        found = authenticator.check(value)
        assert isinstance(found, Refused)
        assert (found.status, found.retry_after_s) == (503, 5.0)


def test_before_the_first_keyring_nobody_is_blamed_either() -> None:
    found = Authenticator(FakeClock()).check(b"Bearer sk-llmgw-a")

    assert isinstance(found, Refused)
    assert found.status == 503


def test_what_is_remembered_is_bounded_and_guesses_are_not_remembered() -> None:
    keys = [f"sk-llmgw-{i}" for i in range(20)]
    authenticator = with_keys(*keys, most=5)

    for key in keys:
        authenticator.check(f"Bearer {key}".encode())
        authenticator.check(f"Bearer guess-{key}".encode())

    assert len(authenticator._remembered) == 5
    assert isinstance(authenticator.check(b"Bearer sk-llmgw-0"), KeyRecord)
