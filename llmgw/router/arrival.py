"""A request while it arrives: its head is checked at once, its body is collected up to the limit."""

from llmgw.core.accounts.access import KeyRecord
from llmgw.core.routing.openai import Refused
from llmgw.core.units import show_bytes
from llmgw.router.authenticate import Authenticator
from llmgw.router.proxy import RequestHead


class Arrival:
    """What has come of one request so far.

    Checks are made in this order, so that somebody without a key learns nothing else: the key, the coding of the
    body, the promised length; then, while it comes, the length.

    Attributes:
        key: the record of its key; None when it was refused for that.
        refusal: why it will not be served, as soon as that is known.
        is_complete: the body is whole.
    """

    __slots__ = ("_most_bytes", "body", "head", "is_complete", "key", "refusal")

    def __init__(
        self, head: RequestHead, length: bytes | None, authenticator: Authenticator, most_bytes: int
    ) -> None:
        """Check what the head tells.

        Args:
            length: value of `Content-Length`, or None.
            most_bytes: how long the body may be.
        """
        self.head = head
        self.body: bytes | bytearray = b""
        self.is_complete = False
        self._most_bytes = most_bytes
        self.key: KeyRecord | None = None
        self.refusal: Refused | None = None
        key = authenticator.check(head.authorization)
        if isinstance(key, Refused):
            self.refusal = key
        else:
            self.key = key
            self.refusal = self._head_problem(head.coding, length)

    def _head_problem(self, coding: bytes | None, length: bytes | None) -> Refused | None:
        if coding is not None and coding.strip().lower() not in (b"", b"identity"):
            return _coded(coding)
        if length is not None and int(length) > self._most_bytes:
            return self._too_large(f"is {int(length)} bytes long (Content-Length)")
        return None

    def _too_large(self, found: str) -> Refused:
        message = (
            f"the request body {found}; at most {self._most_bytes} bytes ({show_bytes(self._most_bytes)}) are taken; "
            "send less, or have the operator raise router.max_body"
        )
        return Refused(status=413, code="request_too_large", message=message)

    def take(self, piece: bytes) -> None:
        """Add a piece of the body; pieces of a refused request are dropped."""
        if self.refusal is not None:
            return
        if not self.body:
            # Most bodies come in one piece, which is then used as it is.
            self.body = piece
        else:
            if isinstance(self.body, bytes):
                self.body = bytearray(self.body)
            self.body += piece
        if len(self.body) > self._most_bytes:
            self.body = b""
            self.refusal = self._too_large(f"has not ended after {self._most_bytes} bytes")


def _coded(coding: bytes) -> Refused:
    shown = coding[:40].decode("latin-1")
    message = f"the request body has Content-Encoding {shown!r}, wanted 'identity'; send it without a content coding"
    return Refused(status=415, code="unsupported_content_encoding", message=message)
