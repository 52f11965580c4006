"""Passwords into hashes and back to yes or no: argon2id, off the loop, and few at once."""

import asyncio

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

AT_ONCE = 2
"""Each takes 64 MiB and a core for some hundredths of a second: a crowd at the login waits its turn."""


class Passwords:
    """Hashes and checks passwords."""

    def __init__(self, hasher: PasswordHasher | None = None) -> None:
        """Take a cheaper hasher for tests; argon2-cffi's own parameters (RFC 9106, low memory) otherwise."""
        self._hasher = hasher or PasswordHasher()
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._nobodys: str | None = None

    async def hashed(self, password: str) -> str:
        """Hash a password, with a salt of its own."""
        async with self._turns:
            return await asyncio.to_thread(self._hasher.hash, password)

    async def is_right(self, hash_: str | None, password: str) -> bool:
        """Tell whether a password is the one that was hashed.

        Args:
            hash_: None for a user who does not exist: the answer is no, after as long a time as any other.
        """
        async with self._turns:
            if hash_ is None and self._nobodys is None:
                self._nobodys = await asyncio.to_thread(self._hasher.hash, "nobody has this password")
            right = await asyncio.to_thread(self._matches, hash_ or self._nobodys or "", password)
            return right and hash_ is not None

    def _matches(self, hash_: str, password: str) -> bool:
        try:
            return self._hasher.verify(hash_, password)
        except (VerificationError, InvalidHashError):
            return False
