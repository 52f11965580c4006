"""Reading the shape of a model from its file, with as few bytes as will do."""

from pathlib import Path

from llmgw.agent.patience import call_within
from llmgw.core.fleet.model_shape import ModelShape
from llmgw.engines.gguf import HEAD_BYTES, MOST_BYTES, More, Unreadable
from llmgw.engines.gguf_shape import read_shape as shape_in

READ_LIMIT_S = 60.0
_GROWTH = 4


async def read_shape(path: Path, limit_s: float = READ_LIMIT_S) -> ModelShape | str:
    """Read the shape of the model in a GGUF file (in the first one of a split set).

    Args:
        limit_s: how long a file, and a filesystem that hangs, is waited for.

    Returns:
        The shape, or why it cannot be told; never raises, for a file without it is as good as any other.
    """
    try:
        return await call_within(limit_s, lambda: _read(path))
    except TimeoutError:
        return f"{path} could not be read within {limit_s:g} s"
    except (OSError, ValueError) as error:
        return f"{path} cannot be read: {getattr(error, 'strerror', None) or error}"


def _read(path: Path) -> ModelShape | str:
    with path.open("rb") as file:
        head, wanted = b"", HEAD_BYTES
        while True:
            head += file.read(wanted - len(head))
            found = shape_in(head)
            if isinstance(found, ModelShape):
                return found
            if isinstance(found, Unreadable):
                return f"{path}: {found.reason}"
            if len(head) < wanted:
                return f"{path} ends within its header, after {len(head)} bytes"
            wanted = _next(found, len(head))


def _next(found: More, had: int) -> int:
    """Read much more than is missing: nine tenths of a header are lists, of which only the next entry is known."""
    return min(MOST_BYTES, max(found.needed_bytes, had * _GROWTH))
