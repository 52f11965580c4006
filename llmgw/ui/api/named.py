"""Read the name in a URL such as /models/org/name/roll: names of models may hold slashes."""

from typing import Any

from litestar import Request
from litestar.exceptions import NotFoundException


def named(request: Request[Any, Any, Any], verb: str) -> str:
    """Give what stands between the noun and the verb, e.g. `org/name`.

    Args:
        verb: what the path must end with, with its slash.

    Raises:
        NotFoundException: it ends with something else.
    """
    target = str(request.path_params["target"]).removeprefix("/")
    name = target.removesuffix(verb)
    if name == target or not name:
        raise NotFoundException
    return name
