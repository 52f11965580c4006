"""Where weights come from: sources as catalogs write them."""

import msgspec


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
