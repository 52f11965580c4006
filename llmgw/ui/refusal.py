"""A request that is not let in, with the HTTP status that says so."""

from llmgw.core.errors import LlmgwError


class Refusal(LlmgwError):
    """The door is closed to this request."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
