"""What opens gated repositories of the hub: from the environment, or from a file. It is shown nowhere."""

from collections.abc import Callable, Mapping
from pathlib import Path

from llmgw.agent.fetcher.faults import CannotFetch

VARIABLE = "HF_TOKEN"


def hub_token(environ: Mapping[str, str], path: str | None) -> Callable[[], str | None]:
    """Make what gives the token. It is read each time it is needed, so that a new one needs no restart.

    Args:
        environ: HF_TOKEN in it goes before the file.
        path: of the file; None when there is none.

    Returns:
        A function that gives the token, or None when there is none; it raises CannotFetch when what there is is none.
    """

    def read() -> str | None:
        token = environ.get(VARIABLE, "")
        if not token and path is not None:
            try:
                token = Path(path).read_text()
            except (OSError, UnicodeDecodeError) as error:
                why = (error.strerror if isinstance(error, OSError) else None) or "it holds no text"
                raise CannotFetch(
                    f"the hub's token cannot be read: weights.token_file {path}: {why}; put the token there, or "
                    "correct the path in agent.yaml"
                ) from error
        token = token.strip()
        if not all("!" <= character <= "~" for character in token):
            raise CannotFetch("the hub's token (HF_TOKEN or weights.token_file) is not one word of ASCII")
        return token or None

    return read
