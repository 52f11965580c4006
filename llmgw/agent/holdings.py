"""What weights lie where on this node: in the cache, in folders of somebody's own, and where a catalog says they are.

All of it touches disks and may hang on a dead one: each place is looked at in a thread, for a while.
"""

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from llmgw.agent.discovery.disks import Mount, is_shared, mount_of
from llmgw.agent.fetcher.staging import shown_draft
from llmgw.agent.weights import find_in, is_snapshot
from llmgw.agent.weights_cache import STAGING, WeightsCache, size_of
from llmgw.core.fleet.weights import (
    FOLDER_ENDING,
    Holding,
    LocalFile,
    Remote,
    is_cache_name,
    parts_of,
    read_source,
)

DEEPEST = 4
"""Folders below a folder that is looked in: ORG/REPO/FOLDER/FILE."""
_LATER_PART = re.compile(r"-\d{5}(-of-\d{5}\.gguf)\Z")
MOST_ENTRIES = 20_000
"""More are not walked: a folder that large is none that holds weights alone."""


class Look(NamedTuple):
    """What a look at a place gave, and why that may not be all there is; None when it is."""

    holdings: tuple[Holding, ...]
    problem: str | None = None


def cached(cache: WeightsCache, sources: Mapping[str, str]) -> tuple[Holding, ...]:
    """List what the cache holds, unfinished downloads included, and what else lies in its folder.

    Args:
        sources: what a catalog calls them, by cache name.
    """
    found, entries = [], _entries(cache.folder)
    for name in sorted({name for entry in entries if (name := _name_of(entry)) is not None}):
        with contextlib.suppress(OSError):
            whole = cache.find(name) is not None
            found.append(_whole(cache, name, sources) if whole else _unfinished(cache, name, sources))
    for entry in entries:
        if entry.endswith(".gguf") and _name_of(entry) is None and not _is_later_part(entry):
            with contextlib.suppress(OSError):
                found.append(_own(cache.folder / entry))
    return tuple(found)


def found_in(folder: Path, sources: Mapping[str, str], skip: Path) -> Look:
    """List the weights in a folder of somebody's own: GGUF files, split ones once, and whole models in folders.

    Args:
        sources: what a catalog names that is not on the node as such, by cache name.
        skip: the cache, should it lie within.

    Raises:
        OSError: the folder itself is not there or cannot be read.
    """
    with os.scandir(folder) as entries:
        next(entries, None)
    named = {}
    for text in sources.values():
        source = read_source(text)
        if not isinstance(source, str) and (place := find_in(folder, source)) is not None:
            named[place] = text
    walked, problem = _walked(folder, skip)
    found: dict[Path, Holding] = {}
    for path in (*named, *walked):
        if path not in found:
            with contextlib.suppress(OSError):
                found[path] = msgspec.structs.replace(_own(path), source=named.get(path))
    return Look(tuple(found.values()), problem)


def named(text: str) -> Holding | None:
    """Look whether what a catalog names by its path is there, whole and not empty."""
    source = read_source(text)
    if not isinstance(source, LocalFile):
        return None
    path = Path(source.path)
    try:
        if path.is_dir():
            return msgspec.structs.replace(_own(path), source=text) if is_snapshot(path) else None
        parts = [path.with_name(part) for part in parts_of(path.name)]
        if not all(part.is_file() for part in parts):
            return None
        holding = _own(path)
    except OSError:
        return None
    return msgspec.structs.replace(holding, source=text) if holding.size_bytes else None


def placed(holding: Holding, mounts: tuple[Mount, ...]) -> Holding:
    """Say on which filesystem something lies."""
    mount = mount_of(holding.path, mounts)
    if mount is None:
        return holding
    return msgspec.structs.replace(
        holding, mount=mount.point, device=mount.source, shared=is_shared(mount.kind)
    )


def remote_sources(sources: tuple[str, ...]) -> Iterator[tuple[str, Remote]]:
    """Go through the sources that are fetched."""
    for text in sources:
        source = read_source(text)
        if not isinstance(source, str | LocalFile):
            yield text, source


def _entries(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _name_of(entry: str) -> str | None:
    """Find the cache name that something in the cache belongs to: itself, a part of it, or its unfinished download."""
    name = _LATER_PART.sub(r"-00001\1", entry.removesuffix(STAGING))
    return name if is_cache_name(name) else None


def _whole(cache: WeightsCache, name: str, sources: Mapping[str, str]) -> Holding:
    paths = [cache.place(part) for part in parts_of(name)]
    note = cache.note(name)
    files = _count(paths[0]) if name.endswith(FOLDER_ENDING) else len(paths)
    with_note = [*paths, cache.folder / f"{name}.json"]
    return Holding(
        path=str(paths[0]),
        source=sources.get(name) or (note.source if note else None),
        cache_name=name,
        size_bytes=sum(size_of(Path(os.path.realpath(path))) for path in paths),
        files=files,
        used_s=max((_changed_s(path) for path in with_note), default=None),
    )


def _unfinished(cache: WeightsCache, name: str, sources: Mapping[str, str]) -> Holding:
    staging = cache.staging(name)
    # Of a split file that lost a part, the other parts lie where they lay.
    family = [path for path in (staging / "files", *map(cache.place, parts_of(name))) if path.exists()]
    return Holding(
        path=str(staging if staging.exists() else cache.place(name)),
        source=sources.get(name) or shown_draft(staging),
        cache_name=name,
        size_bytes=sum(size_of(path) for path in family),
        complete=False,
        files=sum(_count(path) if path.is_dir() else 1 for path in family),
        used_s=max((_changed_s(path) for path in family), default=None),
    )


def _own(path: Path) -> Holding:
    if path.is_dir():
        size, files = size_of(path), _count(path)
    else:
        parts = [path.with_name(part) for part in parts_of(path.name)]
        size, files = sum(part.stat().st_size for part in parts), len(parts)
    # No catalog can name what is no text; it is shown all the same, for it takes room.
    shown = os.fsencode(path).decode(errors="replace")
    return Holding(path=shown, size_bytes=size, files=files, used_s=_changed_s(path))


def _walked(folder: Path, skip: Path) -> tuple[list[Path], str | None]:
    """Find what is weights, up to a depth and a number of entries; links to folders are not followed.

    Returns:
        The files and folders, and why there may be more.
    """
    found: list[Path] = []
    seen = 0
    for at, folders, files in os.walk(folder):
        here = Path(at)
        seen += len(folders) + len(files)
        if seen > MOST_ENTRIES:
            return found, (
                f"it has more than {MOST_ENTRIES} entries, and what lies behind them was not looked at; name a folder "
                "that holds weights alone under weights.also_look_in"
            )
        if len(here.relative_to(folder).parts) >= DEEPEST:
            folders.clear()
        folders[:] = sorted(name for name in folders if here / name != skip and not name.endswith(STAGING))
        if "config.json" in files and is_snapshot(here):
            folders.clear()
            found.append(here)
        else:
            found += _files_in(here, files)
    return found, None


def _files_in(folder: Path, files: list[str]) -> Iterator[Path]:
    for file in sorted(files):
        if file.endswith(".gguf") and not _is_later_part(file):
            parts = [folder / part for part in parts_of(file)]
            with contextlib.suppress(OSError):
                if all(part.is_file() and part.stat().st_size for part in parts):
                    yield folder / file


def _is_later_part(file: str) -> bool:
    """Tell whether a file is a part of a split one and not the first of it."""
    return _LATER_PART.search(file) is not None and "-00001-of-" not in file


def _count(folder: Path) -> int:
    return sum(len(files) for _, _, files in os.walk(folder))


def _changed_s(path: Path) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0
