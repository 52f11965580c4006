"""Names and identities: what a name may look like, and how replicas and shards are called."""

import re

import msgspec

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/+-]{0,95}\Z")
_SHOWN = 100
# Sources of logs are called `install:ENGINE` and `fetch:CACHE-NAME`; a model of that name would be confused with them.
_RESERVED = ("install:", "fetch:")


class Generation(msgspec.Struct, frozen=True, order=True, array_like=True):
    """Which incarnation of a replica this is; the later one wins.

    Attributes:
        epoch: number of the server start that placed it, from the store.
        counter: grows with every placement within one epoch.
    """

    epoch: int
    counter: int

    def __str__(self) -> str:
        return f"{self.epoch}.{self.counter}"


def name_problem(kind: str, name: str) -> str | None:
    """Say what is wrong with `name` as a name of a `kind` (model, profile, node), or None when it is fine."""
    if not _NAME.match(name):
        return (
            f"{kind} name {name[:_SHOWN]!r} is not usable: wanted 1 to 96 of letters, digits and . _ : / + - "
            "with a letter or digit first"
        )
    if kind == "node" and "/" in name:
        # A node has a URL of its own, and a slash would part it.
        return f"node name {name!r} must not have a slash"
    if not {"", ".", ".."}.isdisjoint(name.split("/")):
        # Browsers leave such steps out of a path, and nobody would come to the page of that name.
        return (
            f"{kind} name {name!r} has a part that is empty, . or ..; every part between slashes needs a name"
        )
    if name.startswith(_RESERVED):
        return f"{kind} name {name!r} begins with {name.split(':')[0]}:, which is kept for log sources; choose another"
    return None


def replica_id(model: str, ordinal: int) -> str:
    """Name the `ordinal`-th replica of a model: `gemma.0`."""
    return f"{model}.{ordinal}"


def shard_id(replica: str, rank: int) -> str:
    """Name the engine process of rank `rank` in a replica: `gemma.0.0`."""
    return f"{replica}.{rank}"
