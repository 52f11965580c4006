"""Keeps an eye on the weights of this node: what lies where, and what the server may have removed.

1. It looks every LOOK_EVERY_S, and at once when the server names other sources, a download ended or something was
   removed. A place that does not answer in time is taken to hold what it held when it last answered.
2. Nothing is known before the first look: that is None, and not an empty list.
3. What a shard of this node runs from or waits for is not removed, nor what is being fetched.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import msgspec

from llmgw.agent.discovery.disks import Mount, parse_mountinfo
from llmgw.agent.holdings import Look, cached, found_in, named, placed, remote_sources
from llmgw.agent.patience import Looks, call_within
from llmgw.agent.shapes import read_shape
from llmgw.agent.weights import Weights
from llmgw.agent.weights_cache import Removed
from llmgw.core.fleet.model_shape import ModelShape
from llmgw.core.fleet.shards import LIVE, ShardSpec, ShardState
from llmgw.core.fleet.weights import Holding, cache_name
from llmgw.wire.frames import RemoveWeights, WeightsRemoved

log = logging.getLogger("llmgw.agent.stock")

LOOK_EVERY_S = 30.0
LOOK_LIMIT_S = 60.0
OPEN_LIMIT_S = 5.0
REMOVE_LIMIT_S = 8.0
MOST_SOURCES = 10_000
MOST_HOLDINGS = 5_000


class Stock:
    """Owner of what was last seen. `run` must run for it to look."""

    def __init__(
        self,
        weights: Weights,
        *,
        shards: Callable[[], Iterable[tuple[ShardSpec, ShardState]]],
        say: Callable[[WeightsRemoved], None],
        root: Path = Path("/"),
        every_s: float = LOOK_EVERY_S,
    ) -> None:
        """Take where weights are.

        Args:
            shards: lists what this node runs.
            say: lets an answer wait for the connection there is.
            root: where /proc is.
        """
        self._weights = weights
        self._shards = shards
        self._say = say
        self._root = root
        self._every_s = every_s
        self._sources: tuple[str, ...] = ()
        self._seen: dict[str, tuple[Holding, ...]] = {}
        self._problems: dict[str, str] = {}
        self._holdings: tuple[Holding, ...] | None = None
        self._shapes: dict[tuple[str, int | None, float | None], ModelShape | None] = {}
        self._looks = Looks()
        self._look = asyncio.Event()
        self._removals: set[asyncio.Task[None]] = set()

    def holdings(self) -> tuple[Holding, ...] | None:
        """Return what was last seen; None before the first look."""
        return self._holdings

    def look_for(self, sources: tuple[str, ...]) -> None:
        """Take what the server's catalog names; it replaces what it named before."""
        sources = sources[:MOST_SOURCES]
        if sources != self._sources:
            self._sources = sources
            self._look.set()

    def look_soon(self) -> None:
        """Look before it is time: something may have changed."""
        self._look.set()

    async def open(self) -> None:
        """Make the cache's folder, so that its disk counts from the beginning, and look for the first time."""
        folder = self._weights.cache.folder
        try:
            await call_within(OPEN_LIMIT_S, lambda: folder.mkdir(mode=0o755, parents=True, exist_ok=True))
        except OSError as error:
            why = "its filesystem does not answer" if isinstance(error, TimeoutError) else error.strerror
            log.error("the cache of weights %s cannot be made, so nothing can be fetched: %s", folder, why)
        # A folder that is large or far away must not keep the node from registering; `run` goes on with it.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(OPEN_LIMIT_S):
                await self.look()

    async def run(self) -> None:
        """Look again and again, for ever."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._every_s):
                    await self._look.wait()
            self._look.clear()
            await self.look()

    async def look(self) -> None:
        """Look now."""
        cache, folders = self._weights.cache, self._weights.folders
        by_name = {cache_name(source) or "": text for text, source in remote_sources(self._sources)}
        places: dict[str, Callable[[], Look]] = {str(cache.folder): lambda: Look(cached(cache, by_name))}
        places |= {str(folder): partial(found_in, folder, by_name, cache.folder) for folder in folders}
        local = [text for text in self._sources if text.startswith("file://")]
        places |= {text: partial(_named, text) for text in local}
        await asyncio.gather(*(self._look_at(place, function) for place, function in places.items()))
        self._seen = {place: seen for place, seen in self._seen.items() if place in places}
        self._problems = {place: said for place, said in self._problems.items() if place in places}
        found: dict[str, Holding] = {}
        for place in places:
            for holding in self._seen.get(place, ()):
                # A file that a folder showed already is the same file where a catalog names it.
                before = found.get(holding.path, holding)
                found[holding.path] = msgspec.structs.replace(before, source=before.source or holding.source)
        mounts = self._mounts()
        holdings = [placed(holding, mounts) for holding in list(found.values())[:MOST_HOLDINGS]]
        # What lies where is worth saying before every header has been read.
        self._holdings = tuple(self._shaped(holding) for holding in holdings)
        await self._read_shapes(holdings)
        self._holdings = tuple(self._shaped(holding) for holding in holdings)

    def remove_soon(self, frame: RemoveWeights) -> None:
        """Begin to remove weights; the answer follows."""
        task = asyncio.create_task(self._removed(frame), name="remove weights")
        self._removals.add(task)
        task.add_done_callback(self._removals.discard)

    async def _removed(self, frame: RemoveWeights) -> None:
        try:
            done = await self.remove(frame.names)
        except Exception:  # the border of an owned task: the server gets an answer
            log.exception("removing weights: internal error")
            done = Removed(
                refused=dict.fromkeys(frame.names, "internal error in the agent; its log says more")
            )
        if frame.request_id:
            self._say(
                WeightsRemoved(
                    request_id=frame.request_id,
                    removed=done.removed,
                    freed_bytes=done.freed_bytes,
                    refused=done.refused,
                )
            )

    async def remove(self, names: tuple[str, ...]) -> Removed:
        """Remove weights from the cache, where that may be; says of each name what became of it."""
        busy = self._busy()
        try:
            removed = await call_within(REMOVE_LIMIT_S, lambda: self._weights.cache.remove(names, busy))
        except TimeoutError:
            why = f"the filesystem of {self._weights.cache.folder} did not answer within {REMOVE_LIMIT_S:g} s"
            return Removed(refused=dict.fromkeys(names, why))
        for name in removed.removed:
            log.info("removed %s from the cache, for nobody wants it", name)
        for name, why in removed.refused.items():
            log.warning("%.80r is not removed: %s", name, why)
        self.look_soon()
        return removed

    def _busy(self) -> dict[str, str]:
        busy = dict.fromkeys(self._weights.fetcher.fetching(), "it is being fetched")
        for spec, state in self._shards():
            for _, source in remote_sources((spec.profile.weights,)):
                if state.phase in LIVE:
                    busy[cache_name(source) or ""] = f"{spec.shard} uses it ({state.phase})"
        return busy

    async def _look_at(self, place: str, function: Callable[[], Look]) -> None:
        try:
            self._seen[place], problem = await self._looks.within(LOOK_LIMIT_S, place, function)
        except TimeoutError:
            problem = "it did not answer; what lies there is taken to be what did before"
        except OSError as error:
            problem = f"it cannot be looked at: {error.strerror or error}"
            self._seen[place] = ()
        self._tell(place, problem)

    def _tell(self, place: str, problem: str | None) -> None:
        """Say what is wrong with a place when that changes, and not at each look."""
        before = self._problems.pop(place, None)
        if problem is not None:
            self._problems[place] = problem
        if problem is not None and problem != before:
            log.warning("weights in %s: %s", place, problem)
        elif problem is None and before is not None:
            log.info("weights in %s: all of it can be looked at again", place)

    async def _read_shapes(self, holdings: list[Holding]) -> None:
        """Read the headers of what a catalog names; each file is read once, until it changes."""
        keys = {_key(holding): holding for holding in holdings if _has_shape(holding)}
        self._shapes = {key: shape for key, shape in self._shapes.items() if key in keys}
        for key, holding in keys.items():
            if key not in self._shapes:
                found = await read_shape(Path(holding.path))
                self._shapes[key] = found if isinstance(found, ModelShape) else None

    def _shaped(self, holding: Holding) -> Holding:
        shape = self._shapes.get(_key(holding))
        return holding if shape is None else msgspec.structs.replace(holding, shape=shape)

    def _mounts(self) -> tuple[Mount, ...]:
        try:
            return parse_mountinfo((self._root / "proc/self/mountinfo").read_text(errors="replace"))
        except OSError:
            return ()


def _named(text: str) -> Look:
    found = named(text)
    return Look(() if found is None else (found,))


def _has_shape(holding: Holding) -> bool:
    return holding.source is not None and holding.complete and holding.path.endswith(".gguf")


def _key(holding: Holding) -> tuple[str, int | None, float | None]:
    return holding.path, holding.size_bytes, holding.used_s
