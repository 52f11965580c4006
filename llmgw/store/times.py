"""Times as the database keeps them: UTC, ISO 8601 of one width, so that text sorts as time does."""

from datetime import UTC, datetime


def to_text(at: datetime) -> str:
    """Write a time; one without a zone is a fault of the caller."""
    assert at.tzinfo is not None
    return at.astimezone(UTC).isoformat(timespec="microseconds")


def from_text(text: str) -> datetime:
    """Read what `to_text` wrote."""
    return datetime.fromisoformat(text)
