"""Weights on this node: where they are, whether in the cache or in a folder of somebody's own, and fetching them.

A folder that is looked in beside the cache may hold a source in two ways that leave no doubt which one it is: under its
cache name (somebody's cache), or as ORG/REPO/FILE of the hub, where the catalog names no revision.
"""

from pathlib import Path

import msgspec

from llmgw.agent.fetcher.fetcher import Fetcher, Ticket
from llmgw.agent.patience import call_within
from llmgw.agent.weights_cache import WeightsCache
from llmgw.core.fleet.weights import HubFile, HubRepo, LocalFile, Remote, Source, cache_name, parts_of

LOOK_LIMIT_S = 10.0


class Weights:
    """What a shard asks for its weights."""

    def __init__(self, cache: WeightsCache, fetcher: Fetcher, folders: tuple[Path, ...] = ()) -> None:
        """Take the cache, what fills it, and the folders to look in beside it."""
        self.cache = cache
        self.fetcher = fetcher
        self.folders = folders

    async def local(self, source: Source) -> Path | None:
        """Find a source that is on this node; None when it is not, or nothing answers that could tell.

        A path is taken as it is: whether something is there is seen when it is read.
        """
        if isinstance(source, LocalFile):
            return Path(source.path)
        name = cache_name(source) or ""
        places = [lambda: self.cache.find(name)]
        places += [lambda folder=folder: find_in(folder, source) for folder in self.folders]  # type: ignore[misc]
        for place in places:
            try:
                found = await call_within(LOOK_LIMIT_S, place)
            except (OSError, TimeoutError):
                # A folder that does not answer holds nothing that an engine could load.
                continue
            if found is not None:
                self._use(found, name)
                return found
        return None

    def join(self, source: Remote, text: str) -> Ticket:
        """Wait for a source to be fetched, with all who wait for it already."""
        return self.fetcher.join(source, text)

    def _use(self, found: Path, name: str) -> None:
        if found.parent == self.cache.folder:
            self.cache.used(name)


def find_in(folder: Path, source: Source) -> Path | None:
    """Find a source in a folder of somebody's own; None when it is not there, or not all of it."""
    if isinstance(source, LocalFile):
        return None
    cached = WeightsCache(folder).find(cache_name(source) or "")
    if cached is not None or not isinstance(source, HubFile | HubRepo) or source.revision != "main":
        return cached
    place = folder / source.repo
    if isinstance(source, HubRepo):
        return place if is_snapshot(place) else None
    parts = [place / part for part in parts_of(source.file)]
    return parts[0] if all(part.is_file() for part in parts) else None


def is_snapshot(folder: Path) -> bool:
    """Tell whether a folder holds a whole model as engines load one: its configuration and all files of its weights."""
    if not (folder / "config.json").is_file():
        return False
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        return all((folder / name).is_file() for name in indexed_files(index))
    return any(folder.glob("*.safetensors")) or any(folder.glob("*.bin"))


def indexed_files(index: Path) -> tuple[str, ...]:
    """Read which files the weights of a folder are in; an index that cannot be read names one that is not there."""
    try:
        found = msgspec.json.decode(index.read_bytes(), type=_Index)
    except (OSError, msgspec.DecodeError):
        return ("",)
    return tuple(sorted({name.rpartition("/")[2] for name in found.weight_map.values()})) or ("",)


class _Index(msgspec.Struct):
    weight_map: dict[str, str] = {}
