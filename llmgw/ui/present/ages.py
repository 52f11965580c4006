"""How long ago something was, as the admin surface says it."""

from datetime import datetime


def age_s(since: datetime, at: datetime) -> float:
    """Tell how long ago `since` was when it is `at`, in seconds to a tenth; never less than none."""
    return round(max(0.0, (at - since).total_seconds()), 1)
