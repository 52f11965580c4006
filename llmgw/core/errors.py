"""The one tree of errors. An error is a fault; a refusal is a value that is returned.

LlmgwError            code        meaning
├── BadInput          bad_input   what a person gave cannot be used; carries every problem found
├── NotFound          not_found   the thing named does not exist
├── Conflict          conflict    the thing exists or is held by someone already
├── Unreachable       unreachable a peer did not answer
├── StoreFailed       store       the database cannot be read or written
└── FrameError        bad_frame   bytes on the link are not a frame
"""

from collections.abc import Sequence

import msgspec


class Problem(msgspec.Struct, frozen=True):
    """One thing wrong with what a person gave.

    Attributes:
        path: keys and indexes from the document's root to the place, e.g. ("models", 0, "engine").
        message: what was wanted, what was found and what to write instead.
    """

    path: tuple[str | int, ...]
    message: str

    def where(self) -> str:
        """Name the place as `models[0].engine`; empty for the document itself."""
        shown = ""
        for step in self.path:
            shown += f"[{step}]" if isinstance(step, int) else f".{step}" if shown else step
        return shown

    def __str__(self) -> str:
        where = self.where()
        return f"{where}: {self.message}" if where else self.message


class LlmgwError(Exception):
    """Something broke; the message says what was wanted, what was found and what to do."""

    code = "internal"


class BadInput(LlmgwError):
    """What a person gave cannot be used."""

    code = "bad_input"

    def __init__(self, message: str, problems: Sequence[Problem] = ()) -> None:
        super().__init__(message)
        self.problems = tuple(problems)


class NotFound(LlmgwError):
    """The thing named does not exist."""

    code = "not_found"


class Conflict(LlmgwError):
    """The thing exists already, or somebody holds it."""

    code = "conflict"


class Unreachable(LlmgwError):
    """A peer did not answer."""

    code = "unreachable"


class StoreFailed(LlmgwError):
    """The database cannot be read or written: a full disk, a lock, a file that is none."""

    code = "store"


class FrameError(LlmgwError):
    """Bytes on the link are not a frame of this protocol."""

    code = "bad_frame"
