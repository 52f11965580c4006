import hashlib
from datetime import UTC, datetime, timedelta

from llmgw.core.accounts.access import Denied, KeyRecord, digest_of, find_key, may_use_model

AT = datetime(2030, 1, 1, tzinfo=UTC)
KEY = "sk-llmgw-secret"


def _record(**given: object) -> KeyRecord:
    fields = {"id": 1, "name": "ci", "prefix": "sk-llmgw-sec", "digest": digest_of(KEY), "created_at": AT}
    return KeyRecord(**(fields | given))  # type: ignore[arg-type]


def _denied(record: KeyRecord | None, key: bytes | None, at: datetime = AT) -> Denied:
    found = find_key({} if record is None else {record.digest: record}, key, at)
    assert isinstance(found, Denied)
    return found


def test_a_digest_is_the_sha256_of_the_key_as_text_or_bytes() -> None:
    assert digest_of(KEY) == digest_of(KEY.encode()) == hashlib.sha256(KEY.encode()).digest()


def test_a_known_key_opens_the_door_until_it_expires() -> None:
    record = _record(expires_at=AT + timedelta(seconds=1))

    assert find_key({record.digest: record}, KEY.encode(), AT) == record
    assert (
        "expired at 2030-01-01 00:00 UTC" in _denied(record, KEY.encode(), AT + timedelta(seconds=1)).message
    )


def test_a_request_without_a_key_is_told_how_to_send_one() -> None:
    for nothing in (None, b""):
        denied = _denied(_record(), nothing)
        assert denied.code == "missing_api_key"
        assert "Authorization: Bearer KEY" in denied.message


def test_an_unknown_key_is_denied_without_being_repeated() -> None:
    denied = _denied(None, b"sk-llmgw-other")

    assert denied.code == "invalid_api_key"
    assert "other" not in denied.message


def test_a_revoked_key_is_denied_by_its_prefix() -> None:
    denied = _denied(_record(revoked_at=AT), KEY.encode())

    assert denied.code == "invalid_api_key"
    assert denied.message == "API key sk-llmgw-sec… was revoked; ask for another"


def test_a_key_without_a_list_may_use_every_model_and_one_with_a_list_only_those() -> None:
    assert may_use_model(_record(), "gemma")
    assert may_use_model(_record(models=("gemma",)), "gemma")
    assert not may_use_model(_record(models=("gemma",)), "other")
    assert not may_use_model(_record(models=()), "gemma")
