"""Commands to nodes, written down instead of sent."""

from llmgw.core.fleet.shards import ShardSpec
from llmgw.core.ids import Generation


class CommandLog:
    """Every node is connected unless it is named in `deaf`."""

    def __init__(self) -> None:
        self.deaf: set[str] = set()
        self.starts: list[tuple[str, ShardSpec]] = []
        self.stops: list[tuple[str, str, Generation, str]] = []
        self.drains: list[tuple[str, str, Generation, float]] = []

    def start(self, node_id: str, spec: ShardSpec) -> bool:
        if node_id in self.deaf:
            return False
        self.starts.append((node_id, spec))
        return True

    def stop(self, node_id: str, shard: str, generation: Generation, because: str) -> bool:
        if node_id in self.deaf:
            return False
        self.stops.append((node_id, shard, generation, because))
        return True

    def drain(
        self, node_id: str, shard: str, generation: Generation, deadline_s: float, because: str
    ) -> bool:
        if node_id in self.deaf:
            return False
        self.drains.append((node_id, shard, generation, deadline_s))
        return True
