"""What the profiles of a catalog need, joined of what engines reckon, what nodes hold and what was measured.

An engine reckons from the shape of the model and the size of its weights, which nodes tell of weights they hold: so a
model that was never fetched anywhere has no estimate. Where nodes tell different sizes of one source (a path may be
another file on each), the largest counts.

All of this is asked for at every plan, and most of it is as it was: what nodes hold is looked through again only when
a node tells another list, and an engine is asked again only about what changed.
"""

from collections.abc import Mapping
from typing import Protocol

from msgspec.structs import replace

from llmgw.core.fleet.catalog import Catalog, Profile
from llmgw.core.fleet.model_shape import ModelShape
from llmgw.core.fleet.snapshot import Fleet
from llmgw.core.fleet.weights import Holding, cache_name_of
from llmgw.core.placement.measured import with_peak
from llmgw.core.placement.need import Need

Facts = tuple[ModelShape | None, int | None]
"""The shape of a model and the bytes of its weights, as far as any node tells."""
_NOTHING: Facts = (None, None)


class Reckoning(Protocol):
    """The part of an engine adapter that reckons."""

    def need(self, profile: Profile, shape: ModelShape | None, weights_bytes: int | None) -> Need:
        """Reckon what a profile needs of each of its nodes."""


class Measured(Protocol):
    """Where measured peaks are told."""

    def of(self, fingerprint: str) -> int | None:
        """Return the most main memory that a shard of a profile held, in bytes; None when none was measured."""


class Needs:
    """Knows what each profile needs; owner of what it remembers of the last time."""

    def __init__(self, engines: Mapping[str, Reckoning], measured: Measured) -> None:
        self._engines = engines
        self._measured = measured
        self._weights: dict[str, tuple[Holding, ...] | None] = {}
        self._held: dict[str, Facts] = {}
        self._catalog: Catalog | None = None
        self._profiles: dict[str, Profile] = {}
        self._reckoned: dict[str, tuple[Facts, Need]] = {}

    def of(self, catalog: Catalog, fleet: Fleet) -> dict[str, Need]:
        """Give the need of every profile of a catalog, by its fingerprint."""
        self._look_at(fleet)
        if catalog is not self._catalog:
            self._catalog, self._profiles = catalog, _by_fingerprint(catalog)
        needs = {print: self._need(print, profile) for print, profile in self._profiles.items()}
        self._reckoned = {print: self._reckoned[print] for print in self._profiles}
        return needs

    def _need(self, fingerprint: str, profile: Profile) -> Need:
        facts = self._facts(profile)
        known = self._reckoned.get(fingerprint)
        if known is None or known[0] != facts:
            known = self._reckoned[fingerprint] = (facts, self._reckon(profile, facts))
        return with_peak(known[1], self._measured.of(fingerprint))

    def _reckon(self, profile: Profile, facts: Facts) -> Need:
        shape, weights_bytes = facts
        engine = self._engines.get(profile.engine)
        need = Need() if engine is None else engine.need(profile, shape, weights_bytes)
        return need if need.disk_bytes is not None else replace(need, disk_bytes=weights_bytes)

    def _facts(self, profile: Profile) -> Facts:
        facts = self._held.get(profile.weights)
        if facts is None:
            facts = self._held.get(cache_name_of(profile.weights) or "", _NOTHING)
        return facts

    def _look_at(self, fleet: Fleet) -> None:
        """Look through what nodes hold, unless every node tells what it told the last time."""
        told = {name: node.weights for name, node in fleet.nodes.items()}
        last = self._weights
        if told.keys() == last.keys() and all(weights is last[name] for name, weights in told.items()):
            return
        self._weights = told
        self._held = {}
        for name in sorted(told):
            for held in told[name] or ():
                if held.complete:
                    self._take(held)

    def _take(self, held: Holding) -> None:
        for name in (held.source, held.cache_name):
            if name is not None:
                shape, size = self._held.get(name, _NOTHING)
                if (held.size_bytes or 0) > (size or 0):
                    shape, size = held.shape or shape, held.size_bytes
                self._held[name] = (shape or held.shape, size)


def _by_fingerprint(catalog: Catalog) -> dict[str, Profile]:
    return {profile.fingerprint(): profile for model in catalog.models for profile in model.profiles}
