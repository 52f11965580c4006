"""People as they may be shown."""

from datetime import datetime

import msgspec

from llmgw.core.accounts.users import User


class UserView(msgspec.Struct, frozen=True, kw_only=True):
    """A person who may log in.

    Attributes:
        admin: may see the admin pages, and do there whatever can be done.
    """

    name: str
    admin: bool
    created_at: datetime


def user_view(user: User) -> UserView:
    """Show a user."""
    return UserView(name=user.name, admin=user.admin, created_at=user.created_at)
