"""API keys: what is kept of one and whether it opens a door."""

import hashlib
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum

import msgspec

KEY_PREFIX = "sk-llmgw-"


class Scope(StrEnum):
    """What a key is for."""

    INFERENCE = "inference"
    ADMIN = "admin"


class KeyRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What the store keeps of a key; the key itself is shown once and not kept.

    Attributes:
        prefix: its first characters, to tell keys apart.
        models: model names it may ask for; None allows all.
    """

    id: int
    name: str
    prefix: str
    digest: bytes
    scope: Scope = Scope.INFERENCE
    models: tuple[str, ...] | None = None
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None


class Denied(msgspec.Struct, frozen=True):
    """Why a key does not open the door."""

    code: str
    message: str


Keyring = Mapping[bytes, KeyRecord]


def digest_of(key: str | bytes) -> bytes:
    """Hash a key. Keys carry 256 random bits, so a slow hash would add nothing."""
    return hashlib.sha256(key.encode() if isinstance(key, str) else key).digest()


def find_key(keyring: Keyring, key: bytes | None, at: datetime) -> KeyRecord | Denied:
    """Find the record of a presented key.

    Args:
        key: the bytes after `Bearer `, or None when the request carried none.
    """
    if not key:
        return Denied(
            "missing_api_key",
            "no API key: send 'Authorization: Bearer KEY'; an operator makes one with 'llmgw ctl keys create'",
        )
    record = keyring.get(digest_of(key))
    if record is None:
        return Denied(
            "invalid_api_key",
            "this API key is not known here; check that it is whole and meant for this server",
        )
    if record.revoked_at is not None:
        return Denied("invalid_api_key", f"API key {record.prefix}… was revoked; ask for another")
    if record.expires_at is not None and record.expires_at <= at:
        return Denied(
            "invalid_api_key",
            f"API key {record.prefix}… expired at {record.expires_at:%Y-%m-%d %H:%M} UTC; ask for another",
        )
    return record


def may_use_model(record: KeyRecord, model: str) -> bool:
    """Tell whether the key may ask for the model of this name (the model's own, not an alias)."""
    return record.models is None or model in record.models
