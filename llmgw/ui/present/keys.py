"""API keys as they may be shown."""

from datetime import datetime

import msgspec

from llmgw.core.accounts.access import KeyRecord


class KeyView(msgspec.Struct, frozen=True, kw_only=True):
    """A key as it may be shown.

    Attributes:
        prefix: its first characters.
        models: names it may ask for; None allows all.
        state: "active", "expired" or "revoked".
    """

    id: int
    name: str
    prefix: str
    scope: str
    models: tuple[str, ...] | None
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    state: str


class NewKeyView(KeyView, frozen=True, kw_only=True):
    """A key that was just made; `key` itself is shown this once."""

    key: str


def key_view(record: KeyRecord, at: datetime) -> KeyView:
    """Show a key without what only the store needs."""
    return KeyView(
        id=record.id,
        name=record.name,
        prefix=record.prefix,
        scope=str(record.scope),
        models=record.models,
        created_at=record.created_at,
        expires_at=record.expires_at,
        revoked_at=record.revoked_at,
        state=_state(record, at),
    )


def new_key_view(key: str, record: KeyRecord, at: datetime) -> NewKeyView:
    """Show a key that was just made, with the key itself."""
    return NewKeyView(key=key, **msgspec.structs.asdict(key_view(record, at)))


def _state(record: KeyRecord, at: datetime) -> str:
    if record.revoked_at is not None:
        return "revoked"
    return "expired" if record.expires_at is not None and record.expires_at <= at else "active"
