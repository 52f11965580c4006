"""What a source consists of: its files with their addresses, sizes and hashes, as the source says itself.

The hub says it in the headers of HEAD (the commit, and for large files their sha256 and size) and in its listing of a
repository's tree; small files carry the hash that git has for them. Any other server may say sizes, and a sha256 where
it knows that header. What nobody says is None and is learned, or not checked.
"""

import base64
import binascii
import re
from typing import Any
from urllib.parse import quote

import httpx
import msgspec

from llmgw.agent.fetcher.faults import Broken, CannotFetch
from llmgw.agent.fetcher.web import Web
from llmgw.core.fleet.weights import HubFile, HubRepo, Remote, WebFile, cache_name, parts_of

_SHA256 = re.compile(r"[0-9a-f]{64}\Z")
_SHA1 = re.compile(r"[0-9a-f]{40}\Z")
_SECOND_COPIES = (".bin", ".pth", ".pt", ".ckpt", ".h5", ".msgpack", ".onnx", ".onnx_data", ".gguf", ".ot")
"""Endings of the same weights in other formats, which engines leave alone where there are safetensors."""
_MOST_FILES = 10_000
_MOST_LISTING_BYTES = 64 * 1024**2


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """One file to be fetched.

    Attributes:
        name: what it is called in the cache, or within the folder of a whole repository.
        url: where it is.
        size: its bytes; None when nobody said.
        digest: `sha256:HEX`, or `git-sha1:HEX` for the hash that git has of it; None when nobody said.
    """

    name: str
    url: str
    size: int | None = None
    digest: str | None = None


class _Lfs(msgspec.Struct):
    oid: str
    size: int


class _Entry(msgspec.Struct):
    type: str
    path: str
    size: int = 0
    oid: str | None = None
    lfs: _Lfs | None = None


class _Revision(msgspec.Struct):
    sha: str


async def look_up(source: Remote, web: Web, what: str) -> tuple[Wanted, ...]:
    """Ask a source what it consists of.

    Args:
        what: the source for people.

    Raises:
        Broken: it did not answer; another try may do.
        CannotFetch: it will not say, or says what cannot be.
    """
    match source:
        case HubFile():
            return await _hub_files(source, web, what)
        case HubRepo():
            return await _hub_repo(source, web, what)
        case WebFile():
            return await _web_files(source, web)


def digest_of(headers: httpx.Headers) -> str | None:
    """Find the sha256 of a whole file in the headers of an answer, as stores and servers write it."""
    linked = _unquoted(headers.get("x-linked-etag", ""))
    if _SHA256.match(linked):
        return f"sha256:{linked}"
    said = headers.get("x-amz-checksum-sha256", "")
    # RFC 9530; of a 206 it is still the whole file's, while Content-Digest would be of the piece.
    if found := re.search(r"sha-256=:([A-Za-z0-9+/=]+):", headers.get("repr-digest", "")):
        said = found[1]
    try:
        raw = base64.b64decode(said, validate=True)
    except (binascii.Error, ValueError):
        return None
    return f"sha256:{raw.hex()}" if len(raw) == 32 else None


def length_of(headers: httpx.Headers) -> int | None:
    """Read a length that a header names; None when it names none."""
    said = headers.get("content-length", "")
    return int(said) if said.isdecimal() and len(said) < 19 else None


async def _hub_files(source: HubFile, web: Web, what: str) -> tuple[Wanted, ...]:
    names = parts_of(cache_name(source) or "")
    found, revision = [], source.revision
    for name, file in zip(names, parts_of(source.file), strict=True):
        wanted, commit = await _hub_file(source.repo, revision, file, name, web, what)
        found.append(wanted)
        # A branch may move between two parts of one file.
        revision = commit or revision
    return tuple(found)


async def _hub_file(
    repo: str, revision: str, file: str, name: str, web: Web, what: str
) -> tuple[Wanted, str | None]:
    url = _resolve(web, repo, revision, file)
    async with web.asked("HEAD", url, leaves_host=False) as answer:
        if answer.status_code >= 400:
            raise web.refused(answer, url, what)
        headers = answer.headers
    commit = headers.get("x-repo-commit")
    commit = commit if commit and _SHA1.match(commit) else None
    said = headers.get("x-linked-size", "")
    size = int(said) if said.isdecimal() and len(said) < 19 else None
    if size is None and answer.status_code == 200:
        size = length_of(headers)
    etag, digest = _unquoted(headers.get("etag", "")), digest_of(headers)
    if digest is None and commit and _SHA1.match(etag):
        digest = f"git-sha1:{etag}"
    pinned = _resolve(web, repo, commit, file) if commit else url
    return Wanted(name=name, url=pinned, size=size, digest=digest), commit


async def _hub_repo(source: HubRepo, web: Web, what: str) -> tuple[Wanted, ...]:
    api = f"{web.hub}/api/models/{source.repo}"
    url = f"{api}/revision/{quote(source.revision, safe='')}"
    revision = await _read(url, _Revision, web, what)
    if not _SHA1.match(revision.sha):
        raise CannotFetch(f"{what}: the hub names no commit of it")
    entries: list[_Entry] = []
    next_url: str | None = f"{api}/tree/{revision.sha}?recursive=true"
    while next_url is not None and len(entries) <= _MOST_FILES:
        page, next_url = await _page(next_url, web, what)
        entries += page
    files = [entry for entry in entries if entry.type == "file" and _is_needed(entry.path, entries)]
    if not files or len(entries) > _MOST_FILES:
        raise CannotFetch(f"{what}: it has {len(entries)} files, wanted 1 to {_MOST_FILES}")
    for entry in files:
        if any(part in ("", ".", "..") for part in entry.path.split("/")) or "\0" in entry.path:
            raise CannotFetch(f"{what}: the hub lists a file {entry.path!r}, which no path within it can be")
    return tuple(
        Wanted(
            name=entry.path,
            url=_resolve(web, source.repo, revision.sha, entry.path),
            size=entry.size if entry.lfs is None else entry.lfs.size,
            digest=_listed_digest(entry),
        )
        for entry in files
    )


def _is_needed(path: str, entries: list[_Entry]) -> bool:
    """Leave out what no engine reads: git's own files, and the weights once more in another format."""
    if path.rpartition("/")[2] in (".gitattributes", ".gitignore"):
        return False
    if not any(entry.path.endswith(".safetensors") and "/" not in entry.path for entry in entries):
        return True
    return not path.endswith(_SECOND_COPIES) and not path.startswith("original/")


def _listed_digest(entry: _Entry) -> str | None:
    if entry.lfs is not None:
        return f"sha256:{entry.lfs.oid}" if _SHA256.match(entry.lfs.oid) else None
    return f"git-sha1:{entry.oid}" if entry.oid and _SHA1.match(entry.oid) else None


async def _web_files(source: WebFile, web: Web) -> tuple[Wanted, ...]:
    names = parts_of(cache_name(source) or "")
    urls = parts_of(source.url) if len(names) > 1 else (source.url,)
    given = f"sha256:{source.sha256}" if source.sha256 else None
    found = []
    for name, url in zip(names, urls, strict=True):
        size, digest = await _web_head(url, web)
        found.append(Wanted(name=name, url=url, size=size, digest=given or digest))
    return tuple(found)


async def _web_head(url: str, web: Web) -> tuple[int | None, str | None]:
    """Ask for a size and a hash. Many servers, and most signed URLs, know GET alone, which learns the same."""
    try:
        async with web.asked("HEAD", url) as answer:
            if answer.status_code == 200:
                return length_of(answer.headers), digest_of(answer.headers)
    except Broken:
        # Should nobody be there, GET says so, and tries again.
        return None, None
    return None, None


async def _page(url: str, web: Web, what: str) -> tuple[list[_Entry], str | None]:
    async with web.asked("GET", url) as answer:
        entries = await _decoded(answer, url, list[_Entry], web, what)
        following = answer.links.get("next", {}).get("url")
        return entries, None if following is None else str(answer.url.join(following))


async def _read(url: str, kind: type[Any], web: Web, what: str) -> Any:
    async with web.asked("GET", url) as answer:
        return await _decoded(answer, url, kind, web, what)


async def _decoded(answer: httpx.Response, url: str, kind: Any, web: Web, what: str) -> Any:
    if answer.status_code != 200:
        raise web.refused(answer, url, what)
    body = bytearray()
    async for chunk in answer.aiter_bytes():
        body += chunk
        if len(body) > _MOST_LISTING_BYTES:
            raise CannotFetch(f"{what}: the hub's listing of it is larger than {_MOST_LISTING_BYTES} bytes")
    try:
        return msgspec.json.decode(bytes(body), type=kind)
    except msgspec.DecodeError as error:
        raise CannotFetch(f"{what}: the hub's answer about it cannot be read: {error}") from error


def _resolve(web: Web, repo: str, revision: str, file: str) -> str:
    return f"{web.hub}/{repo}/resolve/{quote(revision, safe='')}/{quote(file)}"


def _unquoted(etag: str) -> str:
    return etag.removeprefix("W/").strip('"')
