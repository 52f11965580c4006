"""Where weights come from, as catalogs write it, what they are called in a cache, and what a node holds of them.

A source is `file:///path`, `hf://org/repo[@revision]/file`, `hf://org/repo[@revision]` (all files of it) or
`https://...` (also what an S3-compatible store hands out); plain http is taken from the node itself alone. A GGUF that
is split is named by its first part, which stands for all of them.

The name in a cache is made of the source alone, so that a server can tell from its catalog which files of a node are
wanted: 32 hex digits, what a split file says of its parts, and the file's extension.
"""

import hashlib
import re

import msgspec

from llmgw.core.fleet.model_shape import ModelShape
from llmgw.core.units import show_bytes, show_seconds

FOLDER_ENDING = ".repo"
"""What the cache name of a whole repository ends with."""
_LOOPBACK = re.compile(r"(?:localhost|127(?:\.\d{1,3}){3}|::1)\Z")
_SPLIT = re.compile(r"-(\d{5})-of-(\d{5})(\.gguf)\Z")
_CACHE_NAME = re.compile(
    r"[0-9a-f]{32}(?:-00001-of-(?P<parts>\d{5}))?(?!\.json\Z|\.part\Z)(?P<ending>\.[a-z0-9]{1,16})?\Z"
)
_URL = re.compile(
    r"(?P<scheme>https?)://(?P<host>\[[0-9a-fA-F:.]+\]|[^/?#:\[\]]+)(?::(?P<port>\d{1,5}))?(?P<path>/[^?#]*)(?P<query>\?[^#]*)?\Z"
)
_ENDING = re.compile(r"\.[a-z0-9]{1,16}\Z")
_REPO = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}\Z")
_REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,127}\Z")
_SHA256 = re.compile(r"sha256=([0-9a-f]{64})\Z")
_LONGEST = 4096
_MOST_PARTS = 999


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

    def __str__(self) -> str:
        """Say it for people; the time that is left only where the whole and the rate are known."""
        text = show_bytes(self.done_bytes)
        if self.total_bytes is not None:
            text += f" of {show_bytes(self.total_bytes)}"
        if not self.rate:
            return text
        text += f", {show_bytes(int(self.rate))}/s"
        if self.total_bytes is not None and self.total_bytes > self.done_bytes:
            text += f", {show_seconds((self.total_bytes - self.done_bytes) / self.rate)} left"
        return text


class LocalFile(msgspec.Struct, frozen=True):
    """A file, or a folder, that is on the node already; `path` is absolute."""

    path: str


class HubFile(msgspec.Struct, frozen=True):
    """A file of a repository on the hub; `revision` is a branch, a tag or a commit."""

    repo: str
    file: str
    revision: str = "main"


class HubRepo(msgspec.Struct, frozen=True):
    """All files of a repository on the hub."""

    repo: str
    revision: str = "main"


class WebFile(msgspec.Struct, frozen=True):
    """A file at a URL; `sha256` is what its bytes must have, where the catalog says it behind a `#`."""

    url: str
    sha256: str | None = None


Remote = HubFile | HubRepo | WebFile
Source = LocalFile | Remote


def read_source(text: str) -> Source | str:
    """Read a weights source.

    Returns:
        The source, or what is wrong with it and what to write instead.
    """
    scheme, separator, rest = text.partition("://")
    if not separator:
        return f"weights {text!r} have no scheme; write file://{text if text.startswith('/') else '/path/on/the/node'}"
    if len(text) > _LONGEST:
        return f"weights {text[:64]!r}... are longer than {_LONGEST} characters, which no address is"
    if "\0" in text:
        return f"weights {text!r} hold a NUL byte, which no path can; remove it"
    readers = {"file": _read_file, "hf": _read_hub, "https": _read_web, "http": _read_web}
    if scheme not in readers:
        return f"weights {text!r}: {scheme}:// cannot be fetched; write hf://, https:// or file:///its/path"
    source = readers[scheme](text, rest)
    if isinstance(source, str):
        return source
    return _split_problem(text, source) or source


def cache_name(source: Source) -> str | None:
    """Name a source in a cache; None for a file that is on the node already."""
    match source:
        case LocalFile():
            return None
        case HubRepo(repo=repo, revision=revision):
            return _hashed(f"hf://{repo}@{revision}") + FOLDER_ENDING
        case HubFile(repo=repo, revision=revision, file=file):
            return _hashed(f"hf://{repo}@{revision}/{file}") + _ending(file)
        case WebFile(url=url, sha256=sha256):
            return _hashed(url if sha256 is None else f"{url}#sha256={sha256}") + _ending(_path(url))


def cache_name_of(text: str) -> str | None:
    """Name a source, as a catalog writes it, in a cache; None for one that is never cached or is none at all."""
    source = read_source(text)
    return None if isinstance(source, str) else cache_name(source)


def is_cache_name(name: str) -> bool:
    """Tell whether this could be the name of a source in a cache."""
    return _CACHE_NAME.match(name) is not None


def parts_of(name: str) -> tuple[str, ...]:
    """List the files that a name stands for: the parts of a split GGUF when it is the first of them, else itself."""
    found = _SPLIT.search(name)
    if found is None or int(found[1]) != 1:
        return (name,)
    stem, count = name[: found.start()], int(found[2])
    return tuple(f"{stem}-{number:05d}-of-{count:05d}{found[3]}" for number in range(1, count + 1))


def shown_source(text: str) -> str:
    """Show a source without what may be a secret: the query of a signed URL opens what it names."""
    head, separator, _ = text.partition("?")
    return f"{head}?..." if separator else text


def _read_file(text: str, rest: str) -> Source | str:
    if not rest.startswith("/"):
        return f"weights {text!r} need an absolute path: three slashes, as in file:///srv/models/model.gguf"
    return LocalFile(rest)


def _read_hub(text: str, rest: str) -> Source | str:
    wanted = "write hf://org/repo/file.gguf, hf://org/repo@revision/file.gguf, or hf://org/repo for all of it"
    org, _, behind = rest.partition("/")
    repo, _, file = behind.partition("/")
    repo, at, revision = repo.partition("@")
    if at and not _REVISION.match(revision):
        return f"weights {text!r}: {revision!r} is no revision; {wanted}"
    if not _REPO.match(org) or not _REPO.match(repo):
        return f"weights {text!r} name no repository of the hub; {wanted}"
    name = f"{org}/{repo}"
    if not file:
        return HubRepo(name, revision or "main")
    if any(part in ("", ".", "..") for part in file.split("/")) or "\\" in file or not file.isprintable():
        return f"weights {text!r}: {file!r} is no path within a repository; {wanted}"
    return HubFile(name, file, revision or "main")


def _read_web(text: str, rest: str) -> Source | str:
    url, _, fragment = text.partition("#")
    if "@" in rest.partition("/")[0]:
        return (
            "weights hold a password, which catalogs show to whoever may read them; use a signed URL instead"
        )
    parts = _URL.match(url)
    if (
        parts is None
        or not url.isascii()
        or not url.isprintable()
        or " " in url
        or int(parts["port"] or 1) > 65535
    ):
        return f"weights {shown_source(text)!r} are no address; write https://host/path/model.gguf, the rest as %xx"
    if parts["scheme"] == "http" and not _LOOPBACK.match(parts["host"].strip("[]")):
        return (
            f"weights {shown_source(text)!r}: nothing tells on the way of http:// who answers; write https://"
        )
    sha256 = _SHA256.match(fragment)
    if fragment and sha256 is None:
        return f"weights {shown_source(text)!r}: behind the # only sha256=<64 hex digits> has a meaning"
    if parts["path"] == "/":
        return f"weights {shown_source(text)!r} name no file; write https://host/path/model.gguf"
    return WebFile(url, sha256[1] if sha256 else None)


def _split_problem(text: str, source: Source) -> str | None:
    """Say what is wrong with the name of one part of a split file."""
    found = _SPLIT.search(_file_of(source))
    if found is None:
        return None
    number, count = int(found[1]), int(found[2])
    if not 1 <= number <= count <= _MOST_PARTS:
        return f"weights {shown_source(text)!r}: no file is part {number} of {count}"
    if number != 1:
        return (
            f"weights {shown_source(text)!r} are part {number} of {count}; name the first, it stands for all"
        )
    if isinstance(source, WebFile) and (source.sha256 or "?" in source.url) and count > 1:
        return (
            f"weights {shown_source(text)!r}: one hash or signature cannot be of {count} files; leave it out"
        )
    return None


def _file_of(source: Source) -> str:
    match source:
        case LocalFile(path=path):
            return path
        case HubFile(file=file):
            return file
        case WebFile(url=url):
            return _path(url)
        case HubRepo():
            return ""


def _path(url: str) -> str:
    return url.partition("?")[0]


def _hashed(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _ending(file: str) -> str:
    if (split := _SPLIT.search(file)) is not None:
        return split[0]
    dot = file.rpartition("/")[2].rpartition(".")
    ending = f".{dot[2].lower()}" if dot[1] and dot[0] else ""
    # A file must never be called as a folder is, nor as what lies beside a download.
    known = ending in (FOLDER_ENDING, ".part", ".json")
    return ending if _ENDING.match(ending) and not known else ""
