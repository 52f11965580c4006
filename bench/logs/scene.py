"""A server and one agent whose shards have all ended: their logs are written by the bench itself."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from real.house import House


class Scene:
    """One house with node `n1`; leaving the `with` block ends every process of it."""

    def __init__(self, root: Path, **agent: Any) -> None:
        self.house = House(root)
        self.logs = root / "n1" / "logs"
        self._agent = agent

    def __enter__(self) -> Self:
        try:
            self.house.start_server()
            # No engine is wanted here, so none is looked for.
            self.house.start_agent("n1", **self._agent)
            self.house.wait_node("n1", "ready")
        except BaseException:
            self.house.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.house.close()

    def admin(self) -> str:
        """Say where the admin API is now, as host:port."""
        return str(self.house.listening["admin"])

    @property
    def address(self) -> Callable[[], str]:
        """Give what says where the admin API is, for whoever looks longer than a server lives."""
        return self.admin

    def write(self, shard: str, data: bytes) -> None:
        """Add to the output of a shard, as its engine would."""
        with (self.logs / f"{shard}.log").open("ab") as file:
            file.write(data)
