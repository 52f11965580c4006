"""Who is asking: the key of a request, looked up in memory."""

from llmgw.core.accounts.access import Denied, KeyRecord, Keyring, find_key
from llmgw.core.routing.openai import Refused
from llmgw.runtime.clock import Clock

MOST_REMEMBERED = 4096
STORE_RETRY_S = 5.0

_STORE_AWAY = Refused(
    status=503,
    type="server_error",
    code="key_store_unavailable",
    message="API keys cannot be checked now because their store cannot be read; this says nothing about your key: "
    f"try again in {STORE_RETRY_S:g} s",
    retry_after_s=STORE_RETRY_S,
)


class Authenticator:
    """Checks keys against a keyring that is replaced as a whole.

    Header values that opened the door are remembered, so that a client which sends many requests is hashed once.
    Refused ones are not: whoever guesses would fill the memory with guesses.
    """

    def __init__(self, clock: Clock, most_remembered: int = MOST_REMEMBERED) -> None:
        self._clock = clock
        self._most_remembered = most_remembered
        self._keyring: Keyring | None = None
        self._remembered: dict[bytes, KeyRecord] = {}

    def set_keys(self, keyring: Keyring | None) -> None:
        """Use these keys from now on; None says that the store cannot be read."""
        self._keyring = keyring
        self._remembered = {}

    def check(self, authorization: bytes | None) -> KeyRecord | Refused:
        """Find the key in the value of an `Authorization` header; None stands for no such header."""
        if authorization is not None:
            record = self._remembered.get(authorization)
            if record is not None and record.expires_at is None:
                return record
        return self._look_up(authorization)

    def _look_up(self, authorization: bytes | None) -> KeyRecord | Refused:
        if self._keyring is None:
            return _STORE_AWAY
        found = find_key(self._keyring, _bearer(authorization), self._clock.at())
        if isinstance(found, Denied):
            return Refused(status=401, code=found.code, message=found.message)
        # A key that expires is looked at anew each time, because the time of day decides.
        if authorization is not None and found.expires_at is None:
            self._remember(authorization, found)
        return found

    def _remember(self, authorization: bytes, record: KeyRecord) -> None:
        if len(self._remembered) >= self._most_remembered:
            del self._remembered[next(iter(self._remembered))]
        self._remembered[authorization] = record


def _bearer(authorization: bytes | None) -> bytes | None:
    if authorization is None or authorization[:7].lower() != b"bearer ":
        return None
    return authorization[7:].strip()
