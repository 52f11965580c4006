"""Load configuration files: YAML into checked structs, with errors that name file, line and the nearest key."""

from pathlib import Path
from typing import Protocol, Self, TypeVar

from llmgw.config.document import Document, parse_yaml, problems_text, read_yaml
from llmgw.core.errors import BadInput, Problem

__all__ = ["Document", "load", "parse_yaml", "problems_text", "read_yaml"]


class Config(Protocol):
    """A kind of configuration file."""

    @classmethod
    def read(cls, data: dict[str, object]) -> tuple[Self | None, list[Problem]]:
        """Read and check plain data; None goes with at least one problem."""


C = TypeVar("C", bound=Config)


def load(path: str | Path, kind: type[C], *, may_be_missing: bool = False) -> C:
    """Load the file at `path` as a `kind` (ServerConfig, AgentConfig).

    Args:
        may_be_missing: a file that is not there counts as empty; for the default path, which nobody named.

    Raises:
        BadInput: the message has a line `FILE:LINE: key: what is wrong` for every problem.
    """
    missing = may_be_missing and not Path(path).exists()
    document = Document(str(path), {}, {}) if missing else read_yaml(path)
    config, problems = kind.read(document.data)
    if config is None:
        raise BadInput(problems_text(document, problems), problems)
    return config
