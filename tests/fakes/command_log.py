"""Commands to nodes, written down instead of sent."""

from llmgw.core.fleet.shards import ShardSpec
from llmgw.core.ids import Generation


class CommandLog:
    """Every node is connected unless it is named in `deaf`."""

    def __init__(self) -> None:
        self.deaf: set[str] = set()
        self.starts: list[tuple[str, ShardSpec]] = []
        self.stops: list[tuple[str, str, Generation, str]] = []

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
