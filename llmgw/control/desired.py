"""What is wanted, in memory: the catalog as it is stored, and when each model entered it."""

from collections.abc import Callable, Mapping
from datetime import datetime

from llmgw.core.fleet.catalog import Catalog


class Desired:
    """Written by the operations of an admin only; everybody else reads."""

    def __init__(self, catalog: Catalog, created: Mapping[str, datetime]) -> None:
        self._catalog = catalog
        self._created = dict(created)
        self._listeners: list[Callable[[], None]] = []

    @property
    def catalog(self) -> Catalog:
        """The catalog that is stored."""
        return self._catalog

    @property
    def created(self) -> Mapping[str, datetime]:
        """When each model entered the catalog, by its name."""
        return self._created

    def listen(self, wake: Callable[[], None]) -> None:
        """Call `wake` after every change; it must not wait."""
        self._listeners.append(wake)

    def take(self, catalog: Catalog, at: datetime) -> None:
        """Take a catalog that was stored at this time; models that stay keep the time they entered."""
        self._catalog = catalog
        self._created = {model.name: self._created.get(model.name, at) for model in catalog.models}
        for wake in self._listeners:
            wake()
