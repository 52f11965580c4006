"""Where weights come from, as catalogs write it, and what a node holds of them."""

import msgspec

from llmgw.core.fleet.model_shape import ModelShape


class Holding(msgspec.Struct, frozen=True, kw_only=True):
    """Weights that a node sees: in its cache, in a folder it was told to look in, or where a catalog says they are.

    Attributes:
        path: of the file (the first of a split set), or of the folder.
        source: what a catalog calls it; None for a file that no source the node knows of means.
        cache_name: its name in the cache; None for a file that is an operator's own.
        size_bytes: of all its files.
        complete: False for a download that is not finished, which is no weights yet.
        files: how many files it is.
        mount: where its filesystem is mounted.
        device: what is mounted there; the same on all nodes that share it.
        shared: that filesystem is one that several nodes see.
        used_s: Unix seconds at which it was last written or launched from, by the node's clock.
        shape: what its header says of the model.
    """

    path: str
    source: str | None = None
    cache_name: str | None = None
    size_bytes: int | None = None
    complete: bool = True
    files: int = 1
    mount: str | None = None
    device: str | None = None
    shared: bool = False
    used_s: float | None = None
    shape: ModelShape | None = None


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a download is.

    Attributes:
        cache_name: of what is fetched.
        done_bytes: written so far.
        total_bytes: of the whole; None when the source does not say.
        rate: bytes a second lately; None when nobody knows yet.
    """

    cache_name: str
    done_bytes: int
    total_bytes: int | None = None
    rate: float | None = None


class LocalFile(msgspec.Struct, frozen=True):
    """A file that is on the node already; `path` is absolute."""

    path: str


def read_source(text: str) -> LocalFile | str:
    """Read a weights source.

    Returns:
        The source, or what is wrong with it and what to write instead.
    """
    scheme, separator, rest = text.partition("://")
    if not separator:
        return f"weights {text!r} have no scheme; write file://{text if text.startswith('/') else '/path/on/the/node'}"
    if scheme != "file":
        return f"weights {text!r}: {scheme}:// cannot be fetched by this version; put the file on the node and write file:///its/path"
    if not rest.startswith("/"):
        return f"weights {text!r} need an absolute path: three slashes, as in file:///srv/models/model.gguf"
    if "\0" in rest:
        return f"weights {text!r} hold a NUL byte, which no path can; remove it"
    return LocalFile(rest)
